"""What diagnoses say of random queries in which everything is mixed, held against the oracle.

``python -m tests.diagnosis.laws 0 1000`` tries the scenarios of these seeds over one stream, ``… 0 1000 streams``
those over several streams, rows of intervals, silences and queries in brackets.
"""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any

import polars as pl

from piestream.diagnosis.rows import in_partition
from piestream.diagnosis.why import Why
from piestream.expressions.diagnostics import QueryError
from piestream.language.model import Query
from piestream.language.printer import absence_text, constraint_text
from tests.diagnosis.test_diagnose import _partitions
from tests.diagnosis.test_stream_why import _agrees, with_ids
from tests.diagnosis.test_streams import _frames
from tests.diagnosis.test_streams import _partitions as _stream_partitions
from tests.engines import parse
from tests.mixed import mixed
from tests.mixed_streams import mixed_streams
from tests.oracle.known import Known, Time
from tests.oracle.streams import Partition
from tests.scenario import Scenario
from tests.stream_scenario import CombinedScenario

__all__ = ["faults", "is_long", "stream_faults"]

#: Of longer scenarios the oracle takes long.
_MOST_ROWS = 40
#: So many matches of a scenario are looked into.
_MATCHES = 3


def is_long(drawn: Scenario) -> bool:
    """Whether a scenario has so many rows that it would take long to look into it."""
    return len(drawn.rows) > _MOST_ROWS


def faults(drawn: Scenario, rng: Random) -> Iterator[str]:
    """What is said wrongly of a scenario over one stream."""
    query, frame = parse(drawn.text()), drawn.stream.frame()
    ties: Any = drawn.ties
    found = query.run(frame, ties=ties)
    expected = drawn.expected()
    triggers = [row for row in expected if row.get("phase") != "completion"]
    counted = query.diagnose(frame, ties=ties)
    if counted.matches.number != len(triggers):
        yield f"diagnose counts {counted.matches} of {len(triggers)}\n{counted}"
    str(counted)
    if drawn.clock.kind == "ns":
        return  # dicts hold no nanoseconds
    partitions = _partitions(drawn)
    for row in _some(found, rng):
        try:
            why = query.why(row, frame, ties=ties)
        except ValueError as error:
            if "have these values" not in str(error):
                raise
            continue
        str(why)
        partition = partitions[tuple((name, row[name]) for name in drawn.keys)]
        yield from _wrong_reasons(drawn, query, partition, row, why)
    key = rng.choice([*partitions]) if partitions else ()
    yield from _wrong_misses(query, frame, {"ties": ties}, dict(key), rng)


def _some(found: pl.DataFrame, rng: Random) -> list[dict[str, Any]]:
    rows = found.rows(named=True)
    return rng.sample(rows, min(_MATCHES, len(rows)))


def _wrong_reasons(
    drawn: Scenario, query: Query, partition: Partition, row: Mapping[str, Any], why: Why
) -> Iterator[str]:
    """Whether no match of the oracle with these starts is what is said."""
    plain = drawn.clock.plain
    starts = {part.symbol: plain(part.ts) for part in why.intervals}
    wrong = []
    for bound, trigger in partition.combinations():
        if {name: math.floor(known.start) for name, known in bound.items()} != starts:
            continue
        said = list(_said_otherwise(drawn, query, partition, bound, trigger, row, why))
        if not said:
            return
        wrong.append("\n".join(said))
    yield f"{row}\n{why}\n" + "\nor ".join(wrong or ["is no match"])


def _said_otherwise(
    drawn: Scenario, query: Query, partition: Partition, bound: dict[str, Known], trigger: Time,
    row: Mapping[str, Any], why: Why,
) -> Iterator[str]:  # fmt: skip
    plain, history = drawn.clock.plain, partition.history
    known: dict[str, Time] = {}  # when each part of it became known
    for part in why.intervals:
        wanted = bound[part.symbol]
        end = None if wanted.end is None else history.shown_time(wanted.end)
        assert wanted.valid is not None
        valid = history.shown_time(wanted.valid)
        if (plain(part.valid_at), part.te and plain(part.te)) != (valid, end):
            yield f"{part.symbol} ends at {end} and is valid at {valid}"
        known[part.symbol] = wanted.valid
    for decision in why.decisions:
        x, y = decision.constraint.x, decision.constraint.y
        at = partition.pairs.decided(x, y, bound[x], bound[y])
        assert at is not None
        last = partition.pairs.relation(x, y, bound, history.instants[-1])
        if (plain(decision.decided_at), decision.relation) != (history.shown_time(at), last):
            yield f"{decision.text} is {last}, decided at {history.shown_time(at)}"
        if not decision.decided_by:
            yield f"{decision.text} is decided by nothing"
        known[constraint_text(decision.constraint)] = at
    report = trigger
    if query.absences:
        found = partition.absences.decided(bound, trigger)
        if found is None:
            yield "its absence is never decided"
            return
        report = found
        latest = max(plain(one.decided_at) for one in why.absences)
        if latest != history.shown_time(found):
            yield f"absences are decided at {history.shown_time(found)}"
    is_complete = _is_complete(query, row)
    if is_complete:
        completion = partition.completion(bound, report)
        if completion is None:
            yield "it is never complete"
            return
        report = completion
    if plain(why.reported_at) != history.shown_time(report):
        yield f"it is reported at {history.shown_time(report)}"
    wanted_reasons = set(_reasons(bound, known, report, is_complete))
    given_reasons = {_of(query, text) for text in why.waited_for}
    if wanted_reasons != given_reasons:
        yield f"it waited for {wanted_reasons}, not {given_reasons}"


def _is_complete(query: Query, row: Mapping[str, Any]) -> bool:
    return "completed_at" in row or row.get("phase") == "completion"


def _reasons(
    bound: Mapping[str, Known], known: Mapping[str, Time], report: Time, is_complete: bool
) -> Iterator[str]:
    """What became known last."""
    ends = [name for name, one in bound.items() if one.end_since == report]
    if is_complete and ends:
        yield from ends
        return
    last = [name for name, at in known.items() if at == report]
    yield from last
    if not last:
        yield "NOT"


def _of(query: Query, text: str) -> str:
    """What a reason is about."""
    for absence in query.absences:
        if text.startswith(absence_text(absence)):
            return "NOT"
    for constraint in query.constraints:
        if text.startswith(f"{constraint_text(constraint)}, decided by"):
            return constraint_text(constraint)
    return text.split(" to ")[0]


def _wrong_misses(
    query: Query, rows: Any, options: Mapping[str, Any], key: Mapping[str, Any], rng: Random
) -> Iterator[str]:
    """Near misses with which no match appears where one was expected."""
    frames = rows if isinstance(rows, Mapping) else {"": rows}
    if (key == {} and query.partition_by) or not all(len(frame) for frame in frames.values()):
        return
    where = _somewhere(query, rows, options, key, rng)
    found = query.why_not(rows, partition=key, most=9, **where, **options)
    str(found)
    for miss in found.near_misses:
        changed = rows if miss.moved is None else miss.moved.of(rows)
        matches = miss.query.run(changed, **options)
        own = matches.filter(in_partition(matches.schema, key))
        if own.is_empty():
            yield f"no match appears, with {where} of {key}: {miss}\n{miss.query}"
        elif "between" in where and not _lies(miss.query, own, where["between"]):
            yield f"no match appears there, with {where} of {key}: {miss}\n{miss.query}"


def _somewhere(
    query: Query, rows: Any, options: Mapping[str, Any], key: Mapping[str, Any], rng: Random
) -> dict[str, Any]:
    """A place where a match may be expected: anywhere, or between the starts of two intervals."""
    intervals = query.intervals(rows, **options)
    intervals = intervals.filter(in_partition(intervals.schema, key))
    starts = intervals["ts"].unique().sort().to_list()
    if not starts or rng.random() < 0.4:
        return {}
    first, last = sorted(rng.choices(starts, k=2))
    return {"between": (first, last)}


def _lies(query: Query, found: pl.DataFrame, between: tuple[Any, Any]) -> bool:
    """Whether a match of which all starts are returned has them there; True if they are not."""
    names = [f"{symbol.name}_ts" for symbol in query.present]
    if not {*names} <= {*found.columns}:
        return True
    here = pl.all_horizontal(pl.col(name).is_between(*between) for name in names)
    return len(found.filter(here)) > 0


# -- several streams -------------------------------------------------------------------------------


def stream_faults(drawn: CombinedScenario, rng: Random) -> Iterator[str]:
    """What is said wrongly of a scenario over several streams."""
    options: dict[str, Any] = {"ties": drawn.ties, "at_end": drawn.at_end}
    query, frames = drawn.query, _frames(drawn)
    triggers = [row for row in drawn.expected() if row.get("phase") != "completion"]
    counted = query.diagnose(frames, **options)
    if counted.matches.number != len(triggers):
        yield f"diagnose counts {counted.matches} of {len(triggers)}\n{counted}"
    str(counted)
    if drawn.clock.kind == "ns":
        return
    told = with_ids(query)
    partitions = {tuple(key): partition for key, partition in _stream_partitions(drawn)}
    for row in _some(told.run(frames, **options), rng):
        try:
            why = told.why(row, frames, **options)
        except ValueError as error:
            if "have these values" not in str(error):
                raise
            continue
        partition = partitions[tuple(row[name] for name in query.partition_by)]
        candidates = partition.combinations()
        if not any(_agrees(drawn, partition, bound, why) for bound, _ in candidates):
            yield f"{row}\n{why}"
        if not why.waited_for or not all(one.decided_by for one in why.decisions):
            yield f"nothing was waited for: {row}\n{why}"
    key = (
        dict(zip(query.partition_by, rng.choice([*partitions]), strict=True)) if partitions else {}
    )
    yield from _wrong_misses(query, frames, options, key, rng)


def main(first: int, end: int, of: str) -> None:
    """Try the scenarios of these seeds, and say how far it got."""
    began, found = time.monotonic(), 0
    for seed in range(first, end):
        rng = Random(f"diagnoses {seed}")
        drawn: Any = mixed(seed) if of == "one" else mixed_streams(seed)
        if of == "one" and is_long(drawn):
            continue
        try:
            said = next(islice((faults if of == "one" else stream_faults)(drawn, rng), 1), None)
        except QueryError as error:
            said = None if " yet" in str(error) else traceback.format_exc(limit=-6)
        except Exception:
            said = traceback.format_exc(limit=-6)
        if said is not None:
            found += 1
            print(f"SEED {seed}\n{drawn}\n{said}\n", flush=True)
        if seed % 20 == 19 or seed == end - 1:
            seconds = time.monotonic() - began
            print(f"up to seed {seed}: {found} faults, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "one")
