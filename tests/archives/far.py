"""Queries that look far beyond the rows of a match, over archives, held against what they give on frames.

``python -m tests.archives.far 0 1000`` does so with the queries of these seeds, and says how often less than
all was read of each kind.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import polars as pl

import piestream as ps
from piestream.archives.run import ArchiveRun
from piestream.archives.several import rows_of_inputs
from piestream.archives.source import source_of
from piestream.language.options import FileOptions
from tests.archives.streams import selecting

__all__ = ["KINDS", "Drawn", "check", "drawn"]

_TYPES = {"ts": pl.Int64, "car": pl.Int64, "lane": pl.Int64, "on": pl.Boolean, "up": pl.Boolean,
          "hit": pl.Boolean, "bad": pl.Boolean, "x": pl.Int64}  # fmt: skip
#: Predicates that hold for long, and that hold at single rows.
_LONG = ["on", "up", "NOT on", "NOT up", "on OR up", "on UNTIL up", "hit UNTIL bad", "x > PREV(x)"]
_SHORT = ["hit", "bad", "hit AND on", "x > 7"]
_RELATIONS = ["intersects", "meets", "precedes", "during; contains", "overlaps; before", "before"]


@dataclass(frozen=True)
class Drawn:
    """A query with the rows of its streams."""

    kind: str
    text: str
    frames: Mapping[str, pl.DataFrame]
    keys: Sequence[str]
    at_end: Literal["open", "close"] = "open"

    def __str__(self) -> str:
        """Everything that is needed to see it again."""
        return "\n".join(
            [self.text, self.at_end, *(f"{n} = {f.to_dicts()}" for n, f in self.frames.items())]
        )


def _rows(rng: Random, most: int = 150) -> pl.DataFrame:
    """Rows of which some predicates hold for long, and others seldom; there are long silences."""
    cars, n = rng.choice([1, 1, 2, 3]), rng.randint(most // 7, most)
    lanes, change, rare = rng.choice([1, 2]), rng.choice([0.03, 0.1, 0.3]), rng.choice([0.03, 0.15])
    on, up = [rng.random() < 0.5] * 9, [rng.random() < 0.5] * 9
    ts, rows = 0, []
    for _ in range(n):
        car, lane = rng.randrange(cars), rng.randrange(lanes)
        at = 3 * lane + car
        ts += rng.choice([1, 1, 1, 1, 2, 3, 9]) if rng.random() < 0.97 else rng.randint(20, 90)
        on[at] ^= rng.random() < change
        up[at] ^= rng.random() < change
        hit, bad = (rng.random() < rare for _ in range(2))
        rows.append((ts, car, lane, on[at], up[at], hit, bad, rng.choice([None, *range(9)])))
    return pl.DataFrame(rows, _TYPES, orient="row")


def _symbol(rng: Random, name: str, predicates: Sequence[str], counts: float = 0.0) -> str:
    """A symbol, now and then with a bound on its events, or its length, or with bridges."""
    text = f"{name} AS {rng.choice(predicates)}"
    if rng.random() < counts:
        text += f" AT {rng.choice(['LEAST', 'MOST'])} {rng.randint(1, 9)} EVENTS"
    elif rng.random() < 0.2:
        text += f" AT LEAST {rng.choice([2, 9])}"
    if rng.random() < 0.1:
        text += f" BRIDGING {rng.choice([2, 9])}"
    return text


def _absent(rng: Random, of: str) -> str:
    """What may not be there, beside a symbol."""
    length = rng.choice([2, 6, 20])
    return rng.choice([
        f"NOT (no before {of} AND {of}.ts - no.te <= {length})",
        f"NOT (no after {of} AND no.ts - {of}.te <= {length})",
        f"NOT (no intersects {of})",
        f"NOT (no contains {of})",
        f"NOT (no overlaps {of})",
        f"NOT (no meets {of})",
    ])  # fmt: skip


def _end(rng: Random, *emits: str) -> str:
    """The clauses behind PATTERN."""
    emit = rng.choice(["", "", "EMIT ON COMPLETION", *emits])
    limit = rng.choice(["", "", "ONCE PER a", "NO OVERLAP", "COOLDOWN 9", "LIMIT 3"])
    return f"WITHIN {rng.choice([4, 15, 40])} {emit} {limit}"


def _at_end(rng: Random) -> Literal["open", "close"]:
    return "close" if rng.random() < 0.25 else "open"


def _keys(rng: Random, frames: Mapping[str, pl.DataFrame]) -> list[str]:
    lanes = any(frame["lane"].n_unique() > 1 for frame in frames.values())
    if lanes and rng.random() < 0.5:
        return rng.sample(["car", "lane"], 2)
    return ["car"] if rng.random() < 0.8 else []


def _by(keys: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(keys)}" if keys else ""


def _of_counts(rng: Random) -> Drawn:
    """What is absent is counted."""
    rows = _rows(rng)
    frames = {"s": rows}
    keys = _keys(rng, frames)
    gap = rng.choice(["", "", "MAX GAP 3", "MAX GAP 8"])
    define = [_symbol(rng, "a", _SHORT), _symbol(rng, "no", _LONG, 1.0)]
    pattern = [_absent(rng, "a")]
    if rng.random() < 0.5:
        define.append(_symbol(rng, "b", _LONG + _SHORT))
        pattern.insert(0, f"a {rng.choice(_RELATIONS)} b")
    else:
        pattern.insert(0, "a")
    text = (
        f"FROM s {_by(keys)} ORDER BY ts {gap} DEFINE {', '.join(define)} "
        f"PATTERN {' AND '.join(pattern)} {_end(rng, 'EMIT ON BOTH')}"
    )
    return Drawn("counts", text, frames, keys, _at_end(rng))


def _of_silences(rng: Random) -> Drawn:
    """What is absent is a silence, or of another stream, and may hold or be silent since long before."""
    frames = {"s": _rows(rng)}
    if rng.random() < 0.6:
        frames["t"] = _rows(rng)
    keys = _keys(rng, frames)
    of = rng.choice(list(frames))
    gaps = [rng.choice(["", "", "MAX GAP 3", "MAX GAP 8"]) for _ in frames]
    one = "s." if len(frames) > 1 else ""
    define = [f"a AS {one}{rng.choice(['hit', 'bad'])}"]
    pattern = ["a", _absent(rng, "a")]
    if rng.random() < 0.6:
        define.append(
            f"no AS SILENCE {'OF ' + of if one else ''} LONGER THAN {rng.choice([2, 9, 25])}"
        )
    else:
        own = one.replace("s", of)
        count = f" AT {rng.choice(['LEAST', 'MOST'])} {rng.randint(1, 7)} EVENTS"
        count = count if rng.random() < 0.7 else ""
        define.append(f"no AS {own}{rng.choice(['on', 'up', 'hit'])}{count}")
    if len(frames) > 1 and (of == "s" or rng.random() < 0.4):
        define.append(f"b AS t.{rng.choice(['hit', 'on', 'bad'])}")
        pattern[0] = f"a {rng.choice(_RELATIONS)} b"
    text = (
        f"FROM {' WITH '.join(f'{n} ORDER BY ts {g}' for n, g in zip(frames, gaps, strict=True))} {_by(keys)} "
        f"DEFINE {', '.join(define)} PATTERN {' AND '.join(pattern)} {_end(rng)}"
    )
    return Drawn("silences", text, frames, keys)


def _of_gaps(rng: Random) -> Drawn:
    """UNTIL in a stream with MAX GAP."""
    frames = {"s": _rows(rng)}
    keys = _keys(rng, frames)
    untils = ["on UNTIL up", "hit UNTIL bad", "bad UNTIL hit", "up UNTIL hit", "hit UNTIL on"]
    define = [_symbol(rng, "a", _SHORT), _symbol(rng, "b", untils, 0.1)]
    pattern = [f"{rng.choice(['a', 'b'])} {rng.choice(_RELATIONS)} {{}}"]
    pattern = [pattern[0].format("b" if pattern[0].startswith("a") else "a")]
    if rng.random() < 0.3:
        define.append(_symbol(rng, "no", untils))
        pattern.append(_absent(rng, rng.choice(["a", "b"])))
    text = (
        f"FROM s {_by(keys)} ORDER BY ts MAX GAP {rng.choice([2, 5, 8, 30])} DEFINE {', '.join(define)} "
        f"PATTERN {' AND '.join(pattern)} {_end(rng, 'EMIT ON BOTH')}"
    )
    return Drawn("gaps", text, frames, keys, _at_end(rng))


def _of_brackets(rng: Random) -> Drawn:
    """A query in brackets of which one match decides about the next, beside the same archive or another."""
    frames = {"s": _rows(rng, 300)}
    other = "s"
    if rng.random() < 0.6:
        other = "t"
        frames["t"] = _rows(rng, 300)
    keys = _keys(rng, frames)
    stream = f"s MATCH_RECOGNIZE ({_row_pattern(rng, keys)})" if rng.random() < 0.5 else ""
    if not stream:
        define = [_symbol(rng, "u", _SHORT + _LONG[:4])]
        pattern = "u"
        if rng.random() < 0.5:
            define.append(_symbol(rng, "v", _SHORT + _LONG[:6]))
            pattern = f"u {rng.choice(_RELATIONS)} v"
        if rng.random() < 0.2:
            define.append(_symbol(rng, "no", _SHORT))
            pattern += " AND " + _absent(rng, "u")
        limit = rng.choice(
            ["ONCE PER u", "NO OVERLAP", "COOLDOWN 9", "COOLDOWN 40", "LIMIT 3", "LIMIT 9"]
        )
        limit = limit if rng.random() < 0.9 else ""
        more = rng.choice(["", "", "ONCE PER u NO OVERLAP" if not limit else ""])
        stream = (
            f"(FROM s {_by(keys)} ORDER BY ts {rng.choice(['', 'MAX GAP 8'])} DEFINE {', '.join(define)} "
            f"PATTERN {pattern} WITHIN {rng.choice([4, 15, 60])} {limit} {more})"
        )
        if rng.random() < 0.15:
            stream = (
                f"(FROM {stream} AS g {_by(keys)} DEFINE w AS g PATTERN w WITHIN {rng.choice([20, 80])} "
                f"{rng.choice(['', 'NO OVERLAP', 'COOLDOWN 9', 'LIMIT 3'])})"
            )
    negated = rng.random() < 0.1
    pattern = f"a {rng.choice(['intersects', 'before', 'before; overlaps', 'precedes'])} b"
    if negated:
        pattern = "b AND NOT (a before b AND b.ts - a.te <= 9)"
    text = (
        f"FROM {stream} AS f WITH {other} ORDER BY ts {_by(keys)} "
        f"DEFINE a AS f, b AS {other}.{rng.choice(['hit', 'bad', 'bad', 'hit AND on'])} "
        f"PATTERN {pattern} {_end(rng).replace('WITHIN 4 ', 'WITHIN 25 ')}"
    )
    return Drawn("brackets", text, frames, keys)


def _row_pattern(rng: Random, keys: Sequence[str]) -> str:
    """What stands in the brackets of a row pattern."""
    pattern = rng.choice([
        "A", "A B+", "A B* C", "B* A", "A{1,3} C?", "A (B C | C B)", "(A | C) B?", "^ A", "A $", "B A{2,}",
        "A B{1,4}? C", "B+ A C*", "A B{0,9} C", "C B{2,9} A", "A B{3} B{0,3} A",
    ])  # fmt: skip
    measures = ["COUNT(*) AS n", "LAST(x) AS y"]
    measures += [m for m in ("MATCH_NUMBER() AS m", "NEXT(LAST(A.x)) AS z") if rng.random() < 0.2]
    within = f"WITHIN {rng.choice([3, 9, 30])}" if rng.random() < 0.5 else ""
    skip = rng.choice(["", "AFTER MATCH SKIP TO NEXT ROW", "AFTER MATCH SKIP PAST LAST ROW"])
    define = {
        "A": rng.choice(["hit", "bad", "hit AND on"]),
        "B": rng.choice(["on", "NOT on", "x > PREV(x)", "up", "x >= LAST(A.x)"]),
        "C": rng.choice(["up", "bad", "x < 3"]),
    }
    defined = ", ".join(f"{name} AS {one}" for name, one in define.items() if name in pattern)
    return (
        f"{_by(keys)} ORDER BY ts MEASURES {', '.join(measures)} {skip} PATTERN ({pattern}) {within} "
        f"DEFINE {defined}"
    )


KINDS: Mapping[str, Callable[[Random], Drawn]] = {
    "counts": _of_counts,
    "silences": _of_silences,
    "gaps": _of_gaps,
    "brackets": _of_brackets,
}


def drawn(seed: int, kinds: Sequence[str] = tuple(KINDS)) -> Drawn:
    """The query of a seed, and the rows of its streams."""
    rng = Random(f"far {seed}")
    while True:
        found = KINDS[kinds[seed % len(kinds)]](rng)
        try:
            ps.query(found.text)
        except ps.QueryError:
            continue
        return found


def _archived(found: Drawn, folder: str, rng: Random) -> dict[str, Any]:
    """The streams as archives."""
    given: dict[str, Any] = {}
    for name, frame in found.frames.items():
        if len(found.frames) > 1 and rng.random() < 0.1:
            given[name] = frame
            continue
        lake = ps.archive(
            Path(folder, name), time="ts", key=rng.choice([None, "car", list(found.keys) or None]),
            page_rows=rng.randint(1, 6), file_rows=rng.randint(9, 60),
        )  # fmt: skip
        size = rng.choice([7, 1000])
        for first in range(0, len(frame), size):
            lake.append(frame[first : first + size])
        given[name] = lake
    return given


def check(found: Drawn, rng: Random) -> Counter[str]:
    """What was read in part; AssertionError if the rows are others than those of all rows."""
    query = ps.query(found.text)
    frames = dict(found.frames) if query.is_combined else found.frames["s"]
    expected = query.run(frames, at_end=found.at_end)
    done = Counter({found.kind: 1})
    with tempfile.TemporaryDirectory() as folder:
        given = _archived(found, folder, rng)
        if query.is_combined:
            chosen = rows_of_inputs(query, given, FileOptions())
            less = any(len(chosen[name]) < len(frame) for name, frame in found.frames.items())
            result = query.run(given)
        else:
            options = FileOptions(at_end=found.at_end)
            work = ArchiveRun(query, source_of(given["s"]), options)
            result = pl.concat([expected[:0], *work.results()])
            less = work.plan.cores is not None and work.read_rows < len(found.frames["s"])
    assert sorted(map(repr, result.rows())) == sorted(map(repr, expected.rows())), str(found)
    done[f"{found.kind} with results"] += len(expected) > 0
    done[f"{found.kind} in part"] += less
    done[f"{found.kind} in part with results"] += less and len(expected) > 0
    return done


def main(first: int, last: int, kinds: Sequence[str]) -> None:
    """Check the queries of some seeds."""
    done: Counter[str] = Counter()
    failed = 0
    warnings.simplefilter("ignore", ps.ResultWarning)
    with selecting():
        for seed in range(first, last):
            try:
                done += check(drawn(seed, kinds), Random(f"archives of {seed}"))
            except Exception as error:
                failed += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
            if seed % 100 == 99:
                print(seed, dict(done), f"{failed} failed", flush=True)
    print(dict(done), f"{failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or tuple(KINDS))
