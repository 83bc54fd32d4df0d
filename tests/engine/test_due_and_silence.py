"""What time alone brings: minimum lengths that fall due between changes, silences, open ends."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.compiled.constants import INT64_MAX
from piestream.joins.result_rows import ResultRow
from piestream.joins.waiting import WaitingStore
from tests.engine.batches import batch_of, by_partition, detector_of
from tests.joins.counting import stream_of
from tests.joins.reference import expected
from tests.joins.streams import Pattern, check, noise

_PARTITION, _TIME = (ResultRow.offset(field) for field in ("partition", "time"))


@pytest.mark.parametrize("emit", ["TRIGGER", "BOTH"])
@pytest.mark.parametrize(
    "bounds",
    [
        {"a": "AT LEAST 5"},
        {"a": "AT LEAST 3", "b": "AT LEAST 8"},
        {"a": "AT LEAST 8", "b": "AT LEAST 3", "c": "AT LEAST 6"},
        {"b": "AT LEAST 4", "c": "AT MOST 9"},
    ],
    ids=str,
)
def test_a_minimum_falls_due_wherever_the_batch_is_cut(bounds: dict[str, str], emit: str) -> None:
    """Most events change nothing, so that the events that count are those of a due length."""
    fell_due = 0
    for seed, clauses in enumerate(
        [
            ("a overlaps; contains; finished-by; starts; equals b",),
            ("a overlaps; contains; meets b", "c contains; overlaps; during; overlapped-by b"),
            ("a before; contains b", "b before; during; overlapped-by c"),
        ]
    ):
        pattern = Pattern(clauses, 60, emit, bounds=bounds)
        pattern = pattern.having(bounds={s: b for s, b in bounds.items() if s in pattern.symbols})
        frame = noise(seed, "abc", 250, (0.07,), (1, 1, 2, 3), together=0.03)
        ways = ("whole", "cut", "restored", "events")
        wanted = check(pattern, frame, at_least=0, ways=ways)
        changes = {
            row["ts"]
            for row in frame.filter(
                pl.struct("a", "b", "c") != pl.struct("a", "b", "c").shift()
            ).to_dicts()
        }
        fell_due += sum(row[0] not in changes for row in wanted)
    assert fell_due > 0


def test_the_event_that_makes_it_long_enough_is_the_first_one_that_does() -> None:
    """Inclusive, at an event and not before, once; in one batch and in batches of one row."""
    times = [1, 2, 3, 5, 9, 10, 11, 20, 21, 29, 30, 31, 33]
    holds = [1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1]
    frame = pl.DataFrame({"ts": times, "a": [bool(v) for v in holds]})
    for least, wanted in {
        1: [(2, 1), (21, 20), (33, 31)],
        2: [(3, 1), (29, 20), (33, 31)],
        3: [(5, 1), (29, 20)],
        4: [(5, 1), (29, 20)],
        8: [(9, 1), (29, 20)],
        9: [(10, 1), (29, 20)],
        10: [(11, 1), (30, 20)],
        11: [],
    }.items():
        query = ps.query(
            f"FROM s ORDER BY ts DEFINE a AS a AT LEAST {least} PATTERN a WITHIN 50 RETURN a.ts"
        )
        assert query.run(frame).rows() == wanted
        for size in (1, 2, 5):
            session = query.open()
            rows = []
            for first in range(0, len(frame), size):
                rows += session.push(frame[first : first + size]).rows()
            assert rows == wanted, (least, size)


def closed(frame: pl.DataFrame, gap: int, now: int) -> pl.DataFrame:
    """The events with an all-false one at the end of each silence: MAX GAP by its definition."""
    names = [name for name in frame.columns if name != "ts"]
    rows = frame.to_dicts()
    events = []
    for row, following in zip(rows, [*(row["ts"] for row in rows[1:]), now], strict=True):
        events.append(row)
        if following - row["ts"] > gap:
            events.append({"ts": row["ts"] + gap, **dict.fromkeys(names, False)})
    return pl.DataFrame(events, schema=frame.schema)


@pytest.mark.parametrize("gap", [1, 3, 6])
@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
def test_silences_end_what_is_open_in_many_partitions(emit: str, gap: int) -> None:
    """As time goes on, each of 120 partitions is closed in the step that its silence is over in."""
    pattern = Pattern(("a meets; overlaps; contains; finished-by b",), 40, emit)
    query = ps.query(str(pattern.query).replace("ORDER BY ts", f"ORDER BY ts MAX GAP {gap}"))
    pieces = [
        (
            k,
            noise(k, "ab", 3 + k % 17, (0.4, 0.5), (1, 1, 2, 5, 8)).with_columns(
                pl.col("ts") + k % 13
            ),
        )
        for k in range(120)
    ]
    binding, detector = detector_of(query, pieces[0][1], len(pieces))
    found = detector.detect(batch_of(binding, pieces)).tolist()
    last = max(int(piece["ts"][-1]) for _, piece in pieces)
    for now in range(last - 60, last + 9):
        rows = detector.advance(now).tolist()
        # not before the silence is longer than the gap, and not a step later
        assert all(row[_TIME] < now for row in rows)
        if now > last - 60:
            assert all(row[_TIME] == now - 1 for row in rows)
        found += rows
    # everything is closed now
    assert detector.next_timeout == INT64_MAX
    assert not detector.partitions.column("mask").any()
    parts = by_partition(found)
    met = 0
    for number, piece in pieces:
        wanted = expected(pattern.query, closed(piece, gap, last + 100))
        assert [row[_TIME] for row in parts.get(number, [])] == [row[0] for row in wanted]
        met += len(wanted)
    assert met > 40


def test_a_deadline_costs_what_is_due_whatever_else_is_open() -> None:
    """4000 partitions become inactive one after the other; half of them have one more event."""
    count, gap = 4000, 10_000
    query = ps.query(
        f"FROM s ORDER BY ts MAX GAP {gap} DEFINE a AS a PATTERN a WITHIN {9 * gap} EMIT ON COMPLETION"
    )
    pieces = [(k, pl.DataFrame({"ts": [k], "a": [True]})) for k in range(count)]
    binding, detector = detector_of(query, pieces[0][1], count)
    detector.detect(batch_of(binding, pieces))
    closed_partitions: list[int] = []
    for now in range(gap + 1, gap + count // 2):
        closed_partitions += detector.advance(now)[:, _PARTITION].tolist()
    again = [(k, pl.DataFrame({"ts": [gap + k], "a": [True]})) for k in range(count // 2, count)]
    detector.detect(batch_of(binding, again))
    for now in range(gap + count // 2, 2 * gap + count + 1):
        closed_partitions += detector.advance(now)[:, _PARTITION].tolist()
    assert closed_partitions == list(range(count))
    assert detector.next_timeout == INT64_MAX
    assert detector.work.deadlines <= 2 * count


@pytest.mark.parametrize("gap", [2, 5])
def test_silences_between_events_are_those_of_their_definition(gap: int) -> None:
    for seed, emit in enumerate(["TRIGGER", "COMPLETION", "BOTH"]):
        pattern = Pattern(
            ("a meets; overlaps; contains; finished-by; equals b", "b before; meets; during c"),
            60,
            emit,
            bounds={"a": "AT LEAST 2"} if seed else {},
        )
        query = ps.query(str(pattern.query).replace("ORDER BY ts", f"ORDER BY ts MAX GAP {gap}"))
        frame = noise(seed, "abc", 400, (0.3, 0.4), (1, 1, 1, 2, 3, 6, 9))
        wanted = expected(pattern.query, closed(frame, gap, int(frame["ts"][-1])))
        assert len(wanted) > 10
        assert query.run(frame).rows() == wanted
        session = query.open()
        rows = []
        for first in range(0, len(frame), 3):
            rows += session.push(frame[first : first + 3]).rows()
        assert rows + session.close().rows() == wanted


@pytest.mark.parametrize("within", [5, 12, 30])
def test_completions_come_however_long_after_the_window(within: int) -> None:
    """EMIT ON BOTH: what has triggered completes though its window, and its neighbours, are gone."""
    pattern = Pattern(
        ("a overlaps; contains; finished-by b", "a contains; overlaps c"), within, "BOTH"
    )
    late = 0
    for seed in range(3):
        frame = noise(seed, "abc", 500, (0.04, 0.3, 0.3), together=0.02)
        rows = check(pattern, frame, at_least=0, ways=("whole", "cut", "restored", "events"))
        completions = [row for row in rows if row[1] == "completion"]
        late += sum(int(row[0]) - min(row[2:8:2]) > within for row in completions)
    assert late > 0


def test_records_of_completed_matches_are_used_again() -> None:
    """The store of waiting matches is as large as the most that ever waited at one time."""
    spans = {
        "a": [(100 * k + 1, 100 * k + 90) for k in range(40)],
        "b": [(100 * k + 10 * i + 3, 100 * k + 10 * i + 6) for k in range(40) for i in range(8)],
    }
    pattern = Pattern(("a overlaps; contains; finished-by b",), 1_000, "BOTH")
    frame = stream_of(spans)
    wanted = expected(pattern.query, frame)
    assert len(wanted) == 2 * 320
    for size in (len(frame), 50, 7):
        binding, detector = detector_of(pattern.query, frame, 1)
        found = 0
        for first in range(0, len(frame), size):
            found += len(detector.detect(batch_of(binding, [(0, frame[first : first + size])])))
        assert found == len(wanted)
        assert WaitingStore.over(detector.waiting).used == 8
        assert detector.partitions.column("waiting").tolist() == [0]
    both = check(pattern, frame)
    assert [row[0] for row in both if row[1] == "completion"] == sorted(
        [end for _, end in spans["a"] for _ in range(8)]
    )


def test_lengths_up_to_the_ends_of_time_are_told_apart() -> None:
    """Differences of times that do not fit into 63 bits, against bounds that hardly do."""
    ends = np.iinfo(np.int64)
    low, high = ends.min + 1, ends.max - 1
    frame = pl.DataFrame({"ts": [low, 0, high], "a": [True, True, False]})
    length = high - low
    for clause, wanted in {
        f"AT LEAST {length}": [(high, low, high)],
        f"AT LEAST {length + 1}": [],
        f"AT MOST {length}": [(high, low, high)],
        f"AT MOST {length - 1}": [],
        "AT LEAST 1": [(0, low, None)],
    }.items():
        query = ps.query(f"FROM s ORDER BY ts DEFINE a AS a {clause} PATTERN a WITHIN {length + 5}")
        assert query.run(frame).rows() == wanted, clause
