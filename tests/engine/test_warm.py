"""After `piestream.warm` nothing is compiled any more, whatever a query asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.compiled.interpreted import INTERPRETED
from piestream.engine.detector import Detector

_ROOT = Path(__file__).parents[2]
_ROWS = 400


def _query(rest: str, define: str = "a AS x > 5, b AS y > 5", head: str = "") -> ps.Query:
    return ps.query(f"FROM s PARTITION BY k ORDER BY t {head} DEFINE {define} {rest}")


def _events(rows: int = _ROWS) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "t": range(rows),
            "k": [n % 3 for n in range(rows)],
            "x": [n * 7 % 11 for n in range(rows)],
            "y": [n * 5 % 11 / 2 for n in range(rows)],
            "z": [f"z{n % 5}" for n in range(rows)],
        }
    )


def every_relation() -> None:
    """Pairs by the pair index and by the endpoint index, cycles, one symbol alone."""
    events = _events()
    _query("PATTERN a meets; overlaps; starts; during; before b WITHIN 50").run(events)
    _query("PATTERN a followed-by b WITHIN 50").run(events)
    _query("PATTERN a WITHIN 50", "a AS x > 5").run(events)
    three = "a AS x > 5, b AS y > 2, c AS x < 3"
    _query("PATTERN a before b AND b before c AND a before c WITHIN 50", three).run(events)


def every_emission() -> None:
    """Rows at the trigger, at the completion, at both; lengths, gaps, and what was before."""
    events = _events()
    for emit in ("TRIGGER", "COMPLETION", "BOTH"):
        _query(f"PATTERN a overlaps; before b WITHIN 50 EMIT ON {emit}").run(events)
    lengths = "a AS x > 5 AT LEAST 2, b AS y > 2 BETWEEN 1 AND 9"
    _query("PATTERN a before; overlaps b WITHIN 50", lengths, "MAX GAP 4").run(events)
    _query("PATTERN a before b WITHIN 50", "a AS x > PREV(x), b AS y > 5").run(events)


def every_aggregate() -> None:
    """Of integers, floats and texts."""
    returned = ", ".join(
        f"{name}(a.{column}) AS {name}_{column}"
        for column, names in {
            "x": ("FIRST", "LAST", "MIN", "MAX", "SUM", "AVG", "COUNT", "STDDEV", "VARIANCE"),
            "y": ("FIRST", "LAST", "MIN", "MAX", "SUM", "AVG", "COUNT", "STDDEV", "VARIANCE"),
            "z": ("FIRST", "LAST", "COUNT"),
        }.items()
        for name in names
    )
    more = "COUNT(a), a.ts, a.te, DURATION(a), RELATION(a, b) AS how"
    for emit in ("TRIGGER", "BOTH"):
        query = f"PATTERN a overlaps; before b WITHIN 50 EMIT ON {emit} RETURN {returned}, {more}"
        _query(query).run(_events())


def every_way_in() -> None:
    """Sessions, single events, disorder, time alone, ties, stored states; threads; files."""
    query = _query(
        "PATTERN a before; overlaps b WITHIN 50 EMIT ON BOTH RETURN LAST(a.z)", head="MAX GAP 9"
    )
    events = _events()
    session = query.open(lateness=3, on_late="drop", ties="last")
    for piece in events.iter_slices(7):
        session.push(piece)
    again = query.open(state=session.snapshot())
    for event in _events(500).to_dicts()[_ROWS:]:
        again.push(event)
    again.advance(2000)
    again.close()
    query.run(events.sample(fraction=1.0, shuffle=True, seed=1), threads=2)
    query.run(pl.concat([events, events]), ties="first")


def what_few_queries_need() -> None:
    """NOT, rows of intervals, and the first of many matches: loops that are compiled by themselves."""
    events = _events()
    absent = "PATTERN a AND NOT (b after a AND b.ts - a.te <= 3) WITHIN 50"
    _query(absent).run(events)
    _query("PATTERN a before b WITHIN 50 ONCE PER b EMIT ON BOTH").run(events)
    ps.query("""
        FROM s ORDER BY t
        WITH (FROM s DEFINE a AS x > 5 PATTERN a WITHIN 50) AS high
        PARTITION BY k DEFINE h AS high, b AS s.y > 5
        PATTERN h overlaps; before b WITHIN 50 LIMIT 3
    """).run(events)


def every_upkeep() -> None:
    """What is done now and then: compaction, codes renamed, join orders that follow the state."""
    query = _query("PATTERN a before b AND a overlaps; before c WITHIN 50 RETURN LAST(a.z)",
                   "a AS x > 5, b AS y > 2, c AS x < 3")  # fmt: skip
    session = query.open()
    session.push(_events())
    assert session._stream is not None
    detector: Detector = session._stream.detector
    detector.compact(300)
    detector.used_codes(0, 8)
    state = session.snapshot()
    query.open(state=state)
    detector.adaption.adapt(
        1 << 40, detector.partitions.words, detector.pool, np.arange(3, dtype=np.int64)
    )


def every_table_of_intervals() -> None:
    x = pl.DataFrame({"k": [1, 1, 2, 2], "ts": [5, 1, 4, 2], "te": [7, 3, 9, 6]})
    ps.join(x, x, "intersects; follows; followed-by", on="k", how="left", relation="how")
    ps.join(x, x, "overlaps", nearest=1, where="x.ts - y.ts < 9")
    ps.relate(x, x)
    ps.coverage(x, x, on="k")
    ps.depth(x, on="k")
    ps.merge(x, gap=1)


EVERYTHING: dict[str, Callable[[], Any]] = {
    f.__name__: f for f in (every_relation, every_emission, every_aggregate, every_way_in,
                             what_few_queries_need, every_upkeep, every_table_of_intervals)
}  # fmt: skip

_AFTER_WARM = """
import json
import piestream as ps
ps.warm()
from numba.core import event
from tests.engine.test_warm import EVERYTHING
found = {}
for name, use in EVERYTHING.items():
    with event.install_recorder("numba:compile") as compiled:
        use()
    found[name] = [one.data["dispatcher"].__name__ for _, one in compiled.buffer]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def compiled_after_warm() -> dict[str, list[str]]:
    """What each use compiles in a process that is warm."""
    done = subprocess.run(
        [sys.executable, "-c", _AFTER_WARM], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("features", EVERYTHING)
def test_after_it_nothing_is_compiled(
    features: str, compiled_after_warm: dict[str, list[str]]
) -> None:
    assert compiled_after_warm[features] == []


_SEPARATE = """
import sys
from piestream.compiled.compiler import SeparateLoop
from tests.engine import test_warm
getattr(test_warm, sys.argv[1])()
print(*sorted(loop.function.__name__ for loop in SeparateLoop.known if loop.is_compiled))
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("features", "compiled"),
    [
        ("every_relation", ""),
        (
            "what_few_queries_need",
            "apply_rows complete extend_to_first insert_next keep_before_end scan_listed settle",
        ),
    ],
)
def test_what_few_queries_need_is_compiled_for_these_alone(features: str, compiled: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SEPARATE, features],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{compiled}\n"


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_it_counts_what_it_compiles_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from piestream.compiled.compiler import announcement

    ps.warm()
    monkeypatch.setattr(announcement, "compiled", 17)  # of queries before
    assert ps.warm().compiled == 0


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_compilation_would_be_seen() -> None:
    """The recorder that the test above relies on."""
    code = (
        "import numba\n"
        "from numba.core import event\n"
        "with event.install_recorder('numba:compile') as compiled:\n"
        "    numba.njit(numba.int64(numba.int64))(lambda n: n + 1)\n"
        "print(len(compiled.buffer) > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
