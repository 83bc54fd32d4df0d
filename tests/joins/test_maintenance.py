"""Forgetting, giving back and renaming change no result, and keep the state small."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.engine.snapshot import restore, snapshot
from piestream.engine.stream import Stream
from piestream.joins.result_rows import ResultRow
from piestream.joins.state_records import PoolHeader
from piestream.plan.binding import bind
from tests import oracle
from tests.engine.batches import batch_of, detector_of
from tests.joins.reference import expected
from tests.joins.state import held
from tests.joins.streams import RELATIONS_OF_MODE, Pattern, check, noise
from tests.truth import column

TIME, PHASE = (ResultRow.offset(name) for name in ("time", "phase"))

PATTERNS = {
    **{
        name: ("a " + words + " b", "b overlaps; contains; met-by c")
        for name, words in RELATIONS_OF_MODE.items()
    },
    "apart": ("a before; overlaps b", "c after; contains a"),
    "precise": ("a followed-by; before b", "b followed-by c"),
}
BOUNDS = {"": {}, "late": {"b": "AT LEAST 3"}, "dropped": {"b": "AT MOST 4", "c": "AT LEAST 2"}}


@pytest.mark.parametrize("emit", ["TRIGGER", "BOTH"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", PATTERNS)
def test_forgetting_at_any_moment_changes_nothing(name: str, bounds: str, emit: str) -> None:
    pattern = Pattern(PATTERNS[name], 14, emit, bounds=BOUNDS[bounds])
    for seed in range(2):
        rng = Random(seed)
        frame = noise(seed, "abc", 300, (0.4, 0.3, 0.1) if seed else (0.1, 0.4))
        wanted = expected(pattern.query, frame)
        binding, detector = detector_of(pattern.query, frame, 1)
        found: list[list[int]] = []
        first = 0
        while first < len(frame):
            end = first + rng.randint(1, 9)
            piece = frame[first:end]
            found += detector.detect(batch_of(binding, [(0, piece)])).tolist()
            now = int(piece["ts"][-1])
            # as late as is safe: everything that began before the window is gone
            idle = detector.compact(now)
            assert idle.tolist() == []  # its last event may still be tied
            floor = now - 14
            for symbol in range(3):
                starts = [one.start for one in held(detector, symbol)]
                assert starts == sorted(starts)
                assert all(start >= floor for start in starts)
            assert PoolHeader.over(detector.pool).wasted == 0
            first = end
        assert [row[TIME] for row in found] == [row[0] for row in wanted]
        assert len({tuple(row) for row in found}) == len(found)
        again = detector_of(pattern.query, frame, 0)[1].detect_whole(
            batch_of(binding, [(0, frame)]), 10**6
        )
        assert found == [row for rows in again for row in rows.tolist()]


def test_what_is_held_is_what_the_window_holds() -> None:
    pattern = Pattern(("a overlaps b",), 25)
    frame = noise(0, "ab", 2_000, (0.4,))
    binding, detector = detector_of(pattern.query, frame, 1)
    sizes = []
    for first in range(0, len(frame), 100):
        piece = frame[first : first + 100]
        detector.detect(batch_of(binding, [(0, piece)]))
        now = int(piece["ts"][-1])
        detector.compact(now)
        alive = sum(
            len(
                frame.filter(
                    pl.col(name)
                    & ~pl.col(name).shift(fill_value=False)
                    & pl.col("ts").is_between(now - 25, now)
                )
            )
            for name in "ab"
        )
        assert detector.live_intervals() == alive
        sizes.append(detector.state_bytes())
    assert max(sizes) < 2 * min(sizes)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_snapshot_is_a_function_of_the_state(name: str) -> None:
    """Taken twice, or of what was restored from it, it has the same bytes."""
    pattern = Pattern(PATTERNS[name], 14, "BOTH", bounds={"b": "AT LEAST 2"})
    frame = noise(5, "abc", 120, (0.4, 0.3, 0.1))
    binding = bind(pattern.query, frame.schema)
    stream = Stream(binding)
    for first in range(0, len(frame), 10):
        stream.process(frame[first : first + 10])
        taken = snapshot(stream)
        assert snapshot(stream) == taken
        assert snapshot(restore(binding, taken)) == taken


def keyed(pattern: Pattern) -> ps.Query:
    return ps.query(str(pattern.query).replace("ORDER BY", "PARTITION BY k ORDER BY"))


@pytest.mark.parametrize("emit", ["TRIGGER", "BOTH"])
@pytest.mark.parametrize("restored", [False, True])
def test_partitions_that_went_quiet_are_given_back_and_used_again(
    emit: str, restored: bool
) -> None:
    """Cars come, drive for a while and go; some come back when nothing is known of them any more."""
    pattern = Pattern(("a meets; overlaps; contains b", "b before; during; overlaps c"), 12, emit)
    query = keyed(pattern)
    parts = []
    for k in range(60):
        frame = noise(k, "abc", 40, (0.4,)).with_columns(pl.col("ts") + 25 * (k % 40))
        # the last event of a drive ends all that is open, so that nothing has to be kept
        off = {name: pl.col(name) & (pl.col("ts") < pl.col("ts").max()) for name in "abc"}
        parts.append(frame.with_columns(k=pl.lit(k % 50), **off))
    stream = pl.concat(parts).unique(["k", "ts"], keep="first", maintain_order=True)
    stream = stream.sort("ts", "k", maintain_order=True)
    session = query.open()
    rows = []
    most = 0
    for first in range(0, len(stream), 90):
        rows.append(session.push(stream[first : first + 90]))
        most = max(most, session.statistics.partitions)
        if restored:
            session = query.open(state=session.snapshot())
    rows.append(session.close())
    found = pl.concat(rows)
    assert most < 20, "quiet partitions were kept"
    met = 0
    for k in range(50):
        wanted = expected(pattern.query, stream.filter(k=k))
        assert found.filter(k=k).drop("k").rows() == wanted, k
        met += len(wanted)
    assert met > 50


def test_a_number_given_back_is_given_out_without_its_past() -> None:
    pattern = Pattern(("a overlaps; contains b", "b overlaps; contains c"), 10)
    frame = noise(1, "abc", 120, (0.4,)).with_columns(
        pl.col("a", "b", "c") & (pl.col("ts") < pl.col("ts").max())
    )
    binding, detector = detector_of(pattern.query, frame, 3)
    first = detector.detect(batch_of(binding, [(1, frame), (2, frame)]))
    assert len(first) > 2
    last = int(frame["ts"][-1])
    assert detector.compact(last).tolist() == [0]  # the last event may still meet a tie
    assert detector.compact(last + 1).tolist() == [0]  # intervals are still in the window
    assert detector.live_intervals() > 0
    idle = detector.compact(last + 100)
    assert idle.tolist() == [0, 1, 2]
    assert detector.live_intervals() == 0
    assert PoolHeader.over(detector.pool).used == PoolHeader.size
    detector.release(idle)
    assert detector.compact(last + 100).size == 0  # what is not used is not idle
    assert sorted(detector.add_partitions(4).tolist()) == [0, 1, 2, 3]
    again = detector.detect(batch_of(binding, [(1, frame), (3, frame)]))
    assert again[:, 1:].tolist() == first[:, 1:].tolist()


def test_a_state_whose_rings_are_laid_out_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies beside the slots is found by reckoning, so its size is part of the layout."""
    pattern = Pattern(("a before b",), 1_000)
    frame = noise(3, "ab", 400, (0.5,))
    session = pattern.query.open()
    session.push(frame)
    state = session.snapshot()
    assert pattern.query.open(state=state).snapshot() == state
    with monkeypatch.context() as other:  # without levels of bits: one a slot
        other.setattr(
            "piestream.engine.detector.ring_words", lambda capacity, width: capacity // 64
        )
        with pytest.raises(ps.StateError, match="laid out otherwise"):
            pattern.query.open(state=state)


def test_what_is_open_or_waits_is_never_idle() -> None:
    frame = pl.DataFrame({"ts": [1, 2, 3, 4], "a": [True] * 4, "b": [False, True, True, True]})
    pattern = Pattern(("a overlaps; contains; finished-by b",), 5, "BOTH")
    binding, detector = detector_of(pattern.query, frame, 2)
    assert len(detector.detect(batch_of(binding, [(1, frame)]))) == 1
    assert detector.compact(10**6).tolist() == [0]
    ends = pl.DataFrame({"ts": [2_000_000], "a": [False], "b": [False]})
    rows = detector.detect(batch_of(binding, [(1, ends)])).tolist()
    assert [(row[PHASE], row[TIME]) for row in rows] == [(1, 2_000_000)]


RETURN = (
    "FIRST(a.w) AS first, MIN(a.w) AS least, MAX(b.w) AS most, LAST(b.w) AS last, "
    "MIN(b.v) AS lv, FIRST(a.v) AS fv, SUM(a.n) AS sn, MAX(b.n) AS mn"
)


def worded(seed: int, rows: int) -> pl.DataFrame:
    """A new word at nearly every event, each in another place of the order than those before."""
    rng = np.random.default_rng(seed)
    words = [f"{int(rng.integers(0, 10**6)):06d} {row}" for row in range(rows)]
    values = [f"v{int(rng.integers(0, 50))}" for _ in range(rows)]
    return noise(seed, "ab", rows, (0.15, 0.25)).with_columns(
        w=pl.Series(words).set(pl.Series(rng.random(rows) < 0.1), None),
        v=pl.Series(values),
        n=pl.Series(rng.integers(0, 300, rows)),  # numbers that could be taken for codes
    )


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_words_keep_their_names_as_others_come_and_go(emit: str, size: int) -> None:
    """Codes are in the order of the words: every new word renames others, every sweep forgets."""
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, b AS b PATTERN a overlaps; contains; before; meets b "
        f"WITHIN 12 EMIT ON {emit} RETURN {RETURN}"
    )
    for seed in range(2):
        frame = worded(seed, 130)
        truth = {name: column(name) for name in "ab"}
        wanted = [tuple(r.values()) for r in oracle.matches(query, frame.to_dicts(), truth)]
        assert len(wanted) > 10
        assert query.run(frame).rows() == wanted
        session = query.open()
        found = []
        for first in range(0, len(frame), size):
            found += session.push(frame[first : first + size]).rows()
            if first % 20 == 0:
                session = query.open(state=session.snapshot())
        assert found + session.close().rows() == wanted


def test_words_that_nothing_holds_are_forgotten() -> None:
    query = ps.query(
        f"FROM s ORDER BY ts DEFINE a AS a, b AS b PATTERN a overlaps b WITHIN 12 RETURN {RETURN}"
    )
    frame = worded(3, 1_200)
    stream = Stream(bind(query, frame.schema))
    sizes = []
    for first in range(0, len(frame), 20):
        stream.process(frame[first : first + 20])
        sizes.append(max(map(len, stream._attributes.values.values())))
    assert max(sizes) < 150


def test_long_sessions_say_what_whole_runs_say() -> None:
    """Thousands of events in small pieces: rings that turned over many times, swept and restored."""
    pattern = Pattern(("a overlaps; contains; meets b", "b overlaps; before c"), 18, "BOTH")
    check(pattern, noise(8, "abc", 4_000, (0.3, 0.4, 0.2)), at_least=500, ways=("whole", "events"))
