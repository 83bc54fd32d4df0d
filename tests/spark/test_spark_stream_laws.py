"""Queries over several streams on Spark: bounded and streaming frames say what the oracle says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from tests.bridged_absences import bridged_absences
from tests.engines import Rows, by_partition, cuts, difference
from tests.spark.streams import InputsPlayer, frame_of, rows_of
from tests.stream_scenario import (
    CombinedScenario,
    absent_scenario,
    combined_scenario,
    sequenced_scenario,
    silence_in_sequence,
    silence_scenario,
    sorted_rows,
)
from tests.test_stream_laws import KINDS

#: How many cases of each kind of streams for every 600 of the other laws; each takes seconds.
BOUNDED, STREAMED, OF = 1, 1, 600
#: From one case to the next the seeds are this far apart: the first that is worth it is taken.
_APART = 40
#: What is streamed: streams of events and of complete rows are in "all", and elsewhere beside others.
_STREAMED_KINDS = ("identified", "known", "queries", "all", "patterns")


#: Besides, streams of events of which symbols are the silences, also beside events of one time that a column orders,
#: matches in which something is absent, of rows too, and those with BRIDGING, too.
_SILENT, _IN_SEQUENCE, _BRIDGED = "silent", "silent in sequence", "bridged"
_ABSENT, _ABSENT_ROWS, _ABSENT_IN_SEQUENCE = "absent", "absent rows", "absent in sequence"
_BESIDES = (_SILENT, _IN_SEQUENCE, _ABSENT, _ABSENT_ROWS, _ABSENT_IN_SEQUENCE, _BRIDGED)


def _drawn(seed: int, kinds: str) -> CombinedScenario:
    """The scenario of a case."""
    if kinds == _SILENT:
        return silence_scenario(seed, KINDS["events"])
    if kinds == _IN_SEQUENCE:
        return silence_in_sequence(seed, KINDS["events"], seed % 2 == 1)
    if kinds == _ABSENT:
        return absent_scenario(seed, KINDS["all"])
    if kinds == _ABSENT_ROWS:
        return absent_scenario(seed, KINDS["known"])
    if kinds == _ABSENT_IN_SEQUENCE:
        return sequenced_scenario(seed, KINDS["all"])
    if kinds == _BRIDGED:
        found = (bridged_absences(n, 6) for n in count(1_000 * seed))
        return next(many.drawn for many in found if many and len(many.drawn.inputs) > 1)
    return combined_scenario(seed, KINDS[kinds])


def _fits(drawn: CombinedScenario) -> bool:
    """Spark's times are microseconds, a frame without rows says nothing, and its rows stand in no order."""
    if any(stream.by_row for stream in drawn.inputs.values()):
        return False
    return drawn.clock.kind != "ns" and any(stream.rows for stream in drawn.inputs.values())


def _case(kinds: str, first: int) -> tuple[CombinedScenario, int]:
    """The first scenario from a seed on that is worth Spark's time, and its seed."""
    drawn = ((_drawn(seed, kinds), seed) for seed in count(first))
    return next(
        (one, seed) for one, seed in drawn if _fits(one) and (one.expected() or seed % 7 == 0)
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many cases as ``--laws`` asks for, in proportion, half of them of fresh seeds."""
    option = metafunc.config.option
    for name, kinds, first, many in (
        ("bounded_case", (*KINDS, *_BESIDES), 0, BOUNDED),
        ("streamed_case", (*_STREAMED_KINDS, *_BESIDES), 1_000, STREAMED),
    ):
        if name in metafunc.fixturenames:
            half = max(1, many * option.laws // OF // 2)
            firsts = [first + at + _APART * n for at in (0, option.fresh) for n in range(half)]
            cases = [(kind, at) for kind in kinds for at in firsts]
            ids = [
                f"{kind}-{source}{n}"
                for kind in kinds
                for source in ("", "fresh ")
                for n in range(half)
            ]
            metafunc.parametrize(name, cases, ids=ids)


def _check(drawn: CombinedScenario, frame: pl.DataFrame, plan: object) -> None:
    found = drawn.clock.plain_frame(frame)
    wanted = _ordered(drawn, drawn.expected())
    if (why := difference(wanted, _ordered(drawn, found), drawn.keys)) is not None:
        pytest.fail(f"\n{drawn}\nplan = {plan}\n{why}\n", pytrace=False)


def _ordered(drawn: CombinedScenario, rows: Rows) -> Rows:
    partitions = by_partition(rows, drawn.keys).values()
    return [row for part in partitions for row in sorted_rows(part)]


def test_bounded_frames_say_what_the_oracle_says(spark: Any, bounded_case: tuple[str, int]) -> None:
    drawn, seed = _case(*bounded_case)
    rng = Random(seed)
    frames = {}
    for name, stream in drawn.inputs.items():
        rows = list(stream.rows)
        if drawn.ties == "error":
            rng.shuffle(rows)
        frames[name] = frame_of(spark, drawn.frame(name, rows))
        if drawn.ties == "error":
            frames[name] = frames[name].repartition(3)
    buckets = rng.choice((1, 3, 64))
    found = drawn.query.run(frames, ties=drawn.ties, buckets=buckets)
    _check(drawn, rows_of(found), buckets)


def _micro_batches(
    drawn: CombinedScenario, lateness: int, rng: Random
) -> list[dict[str, pl.DataFrame]]:
    """All rows in some order that the lateness allows, cut into micro-batches."""
    beat = max(1, drawn.clock.beats(1))
    arrivals: list[tuple[float, float, str, Mapping[str, Any]]] = []
    for key, stream in drawn.inputs.items():
        delays: dict[int, int] = {}  # rows that tie keep their order
        for number, row in enumerate(stream.rows):
            at = stream.instant(row)
            delay = delays.setdefault(at, rng.randint(0, lateness * beat))
            arrivals.append((at + delay, number, key, row))
    arrivals.sort(key=lambda one: one[:2])
    parts = []
    at = 0
    for size in _few(cuts(len(arrivals), rng)):
        part: dict[str, list[Mapping[str, Any]]] = {key: [] for key in drawn.inputs}
        for _, _, key, row in arrivals[at : at + size]:
            part[key].append(row)
        at += size
        parts.append({key: drawn.frame(key, rows) for key, rows in part.items()})
    return parts


def _few(sizes: Sequence[int], most: int = 6) -> list[int]:
    """These sizes, of which small ones are put together, since each micro-batch costs Spark time."""
    step = -(-len(sizes) // most) or 1
    return [sum(sizes[at : at + step]) for at in range(0, len(sizes), step)]


def test_streams_say_what_the_oracle_says(
    spark: Any, streamed_case: tuple[str, int], tmp_path: Path
) -> None:
    drawn, seed = _case(*streamed_case)
    rng = Random(seed)
    lateness = rng.choice((0, 2, 5))
    parts = _micro_batches(drawn, lateness, rng)
    text = drawn.clock.text(lateness)
    options: dict[str, Any] = {
        "ties": drawn.ties,
        "lateness": text if drawn.clock.unit else int(text),
        "buckets": rng.choice((1, 3)),
        "partitioning": rng.choice(("bucket", "bucket", "key")),
    }
    schemas = {key: drawn.frame(key, []) for key in drawn.inputs}
    player = InputsPlayer(spark, drawn.query, schemas, tmp_path, **options)
    stopped = rng.randint(0, len(parts))
    player.play(*parts[:stopped])  # and started again from its checkpoint
    player.play(*parts[stopped:])
    found = pl.concat([player.rows(), player.flushed()]) if player.batches else player.flushed()
    _check(drawn, found, (parts, stopped, options))
    assert player.counted("late") == player.dropped() == 0
