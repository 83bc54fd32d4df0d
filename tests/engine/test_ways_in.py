"""Whole batches, pieces, single events and threads: the same rows, in the same order."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.engine.snapshot import restore, snapshot
from piestream.engine.stream import Stream
from piestream.joins.result_rows import ResultRow
from piestream.plan.binding import bind
from tests.engine.batches import batch_of, by_partition, detector_of, found_whole, one_by_one
from tests.joins.reference import expected
from tests.joins.streams import Pattern, noise

HEAD = "FROM s ORDER BY ts {gap} DEFINE a AS a {a}, b AS b {b}, c AS c PATTERN "
QUERIES = {
    "chain": "a meets; overlaps; contains b AND b overlaps; before c WITHIN 20",
    "both": "a overlaps; contains b AND c during; overlapped-by b WITHIN 15 EMIT ON BOTH",
    "completion": "a before; overlaps b AND c contains; overlaps b WITHIN 25 EMIT ON COMPLETION",
    "cells": "a overlaps; contains b AND b overlaps; met-by; during c WITHIN 30 "
    "EMIT ON BOTH RETURN a.ts, b.te, SUM(a.n) AS sn, AVG(b.f) AS af, LAST(c.m) AS lm, "
    "STDDEV(c.f) AS sf, COUNT(a) AS ca, RELATION(a, b) AS ab, RELATION(b, c) AS bc",
    "precise": "a before; followed-by b AND b followed-by; overlaps c WITHIN 15 "
    "RETURN a.ts, b.ts, c.ts, c.te, RELATION(a, b) AS ab",
}
GAPS = {"": "", "gap": "MAX GAP 4"}
BOUNDS = {"": ("", ""), "late": ("AT LEAST 4", ""), "dropped": ("AT MOST 6", "AT LEAST 3")}
PARTITIONS = 9


def query_of(name: str, gap: str, bounds: str) -> ps.Query:
    a, b = BOUNDS[bounds]
    return ps.query(HEAD.format(gap=GAPS[gap], a=a, b=b) + QUERIES[name])


def partitions_of(seed: int) -> list[tuple[int, pl.DataFrame]]:
    """Partitions of very different sizes, with silences now and then."""
    rng = np.random.default_rng(seed)
    pieces = []
    for number in rng.permutation(PARTITIONS).tolist():
        rows = int(rng.choice([1, 5, 40, 90]))
        frame = noise(10 * seed + number, "abc", rows, (0.3, 0.3, 0.35), (1, 1, 1, 2, 7))
        frame = frame.with_columns(
            n=pl.Series(rng.integers(0, 9, rows)).set(pl.Series(rng.random(rows) < 0.2), None),
            f=pl.Series(rng.normal(size=rows)),
            m=pl.Series(rng.integers(0, 9, rows)),
        )
        pieces.append((number, frame))
    return pieces


def assert_same(found: np.ndarray | list, wanted: np.ndarray) -> None:
    """Row for row within each partition. Sums in pieces round in another way."""
    parts, others = by_partition(np.asarray(found).tolist()), by_partition(wanted.tolist())
    assert parts == others


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("name", QUERIES)
def test_all_ways_into_the_detector_agree(name: str, gap: str, bounds: str) -> None:
    query = query_of(name, gap, bounds)
    met = 0
    for seed in range(3):
        pieces = partitions_of(seed)
        frame = pieces[0][1]
        now = max(int(piece["ts"].max()) for _, piece in pieces) + 2
        # at once, and then the silences up to now
        binding, detector = detector_of(query, frame, PARTITIONS)
        batch = batch_of(binding, pieces)
        at_once = detector.detect(batch)
        wanted = np.concatenate([at_once, detector.advance(now)])
        met += len(wanted)
        # partitions come in the order of the batch
        order = [number for number, _ in pieces]
        places = [
            order.index(number) for number in at_once[:, ResultRow.offset("partition")].tolist()
        ]
        assert places == sorted(places)

        # the whole input, on any number of threads: the same array
        whole = found_whole(detector_of(query, frame, 0)[1], batch, now)
        assert_same(whole, wanted)
        for threads in (2, 3, 40):
            other = found_whole(detector_of(query, frame, 0)[1], batch, now, threads)
            assert np.array_equal(other, whole), threads
        if not gap:
            assert np.array_equal(whole, wanted)

        # one by one
        binding, detector = detector_of(query, frame, PARTITIONS)
        single = one_by_one(binding, detector, pieces)
        single += map(tuple, detector.advance(now).tolist())
        assert_same(single, wanted)

        # in pieces, the partitions in another order each time
        rng = np.random.default_rng(seed)
        binding, detector = detector_of(query, frame, PARTITIONS)
        found = []
        rest = dict(pieces)
        while rest:
            chosen = rng.permutation(list(rest))[: int(rng.integers(1, 5))].tolist()
            taken = []
            for number in chosen:
                size = int(rng.integers(1, 30))
                taken.append((number, rest[number][:size]))
                rest[number] = rest[number][size:]
                if not len(rest[number]):
                    del rest[number]
            found += detector.detect(batch_of(binding, taken)).tolist()
        found += detector.advance(now).tolist()
        assert_same(found, wanted)
    assert met > 0


def test_shares_of_threads_are_whole_partitions() -> None:
    """Many partitions of which some hold nearly all rows, and more threads than partitions."""
    query = query_of("both", "", "")
    for rows in ([900, 3, 2, 1], [1, 2, 900], [300] * 5, [700], [1] * 7):
        pieces = [(k, noise(k, "abc", n, (0.3, 0.4, 0.2))) for k, n in enumerate(rows)]
        binding, detector = detector_of(query, pieces[0][1], 0)
        batch = batch_of(binding, pieces)
        wanted = [(number, *row) for number, piece in pieces for row in expected(query, piece)]
        for threads in (1, 2, 3, 4, 16):
            found = found_whole(detector, batch, 10**6, threads)
            assert len(found) == len(wanted)
            assert found[:, :2].tolist() == [[row[0], row[1]] for row in wanted]


def test_work_is_counted_alike_on_any_number_of_threads() -> None:
    """Nor by whether state is kept; at times before zero too, where no offer is none."""
    query = query_of("chain", "", "")
    pieces = [(k, noise(k, "abc", 200, (0.3, 0.4, 0.02))) for k in range(6)]
    pieces = [(k, piece.with_columns(pl.col("ts") - 10_000)) for k, piece in pieces]
    binding, detector = detector_of(query, pieces[0][1], 6)
    detector.detect(batch_of(binding, pieces))
    works = [detector.work]
    for threads in (1, 2, 3):
        binding, detector = detector_of(query, pieces[0][1], 0)
        found_whole(detector, batch_of(binding, pieces), 10**6, threads)
        works.append(detector.work)
    assert works[0] == works[1] == works[2] == works[3]
    assert works[0].steps > 0
    assert works[0].visits > 0


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
def test_runs_on_threads_give_the_rows_of_one(emit: str) -> None:
    """Through the front door, with keys: the same frame whatever the number of threads."""
    pattern = Pattern(("a overlaps; contains b", "b before; overlaps c"), 30, emit)
    frames = [noise(k, "abc", 150, (0.2, 0.3)).with_columns(k=pl.lit(f"key {k}")) for k in range(7)]
    keyed = ps.query(str(pattern.query).replace("ORDER BY", "PARTITION BY k ORDER BY"))
    mixed = pl.concat(frames).sort("ts", "k")
    results = []
    for threads in (1, 2, 3):
        stream = Stream(bind(keyed, mixed.schema), lateness=None, whole=True, threads=threads)
        results.append(pl.concat([stream.process(mixed), stream.finish()]))
    assert results[0].equals(results[1])
    assert results[0].equals(results[2])
    for k, frame in enumerate(frames):
        rows = results[0].filter(k=f"key {k}").drop("k").rows()
        assert rows == expected(pattern.query, frame)


@pytest.mark.parametrize("name", ["both", "cells"])
def test_a_detector_goes_on_from_a_snapshot_as_if_there_had_been_none(name: str) -> None:
    query = query_of(name, "gap", "late")
    frame = noise(4, "abc", 90, (0.3, 0.4, 0.15), (1, 1, 5)).with_columns(
        n=pl.lit(1), f=pl.lit(0.5), m=2
    )
    binding = bind(query, frame.schema)
    stream, other = Stream(binding), Stream(binding)
    for row in range(len(frame)):
        one, two = stream.process(frame[row : row + 1]), other.process(frame[row : row + 1])
        assert one.equals(two)
        other = restore(binding, snapshot(other))
