"""State as bytes: it goes on where it was, and what cannot be read is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.adapters.binding import bound
from piestream.compiled.records import Record
from piestream.engine.arrow_stream import check_stream
from piestream.engine.snapshot import VERSION, sections_of, with_sections
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import PoolHeader, Slot
from piestream.joins.waiting import WaitingStore

TEXT = """
FROM s PARTITION BY k ORDER BY t MAX GAP 9
DEFINE a AS x > 1, b AS y > PREV(y)
PATTERN a before; meets; overlaps; contains b
WITHIN 30 EMIT ON BOTH RETURN FIRST(a.w), MAX(a.w), COUNT(b), STDDEV(b.y), a.te, b.te
"""
QUERY = ps.query(TEXT)
EVENTS = pl.DataFrame(
    {
        "k": ["u", "v"] * 20,
        "t": range(40),
        "x": [5, 5, 5, 0, 0, 5, 0, 0] * 5,
        "y": [1, 2, 3, 9, 9, 1, 2, 8, 1, 4] * 4,
        "w": ["p", "q", None, "o"] * 10,
    }
)


def restored(session: ps.Session) -> ps.Session:
    found: ps.Session = QUERY.open(state=session.snapshot())
    return found


def test_a_session_goes_on_as_if_it_had_never_been_away() -> None:
    expected = QUERY.run(EVENTS).rows()
    session, found = QUERY.open(), []
    for row in EVENTS.iter_slices(1):
        found += session.push(row).rows()
        session = restored(session)
    found += session.close().rows()
    assert len(found) > 20
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_options_and_statistics_are_part_of_the_state() -> None:
    session = QUERY.open(lateness=5, on_late="drop", ties="last")
    session.push(EVENTS)
    again = restored(session)
    assert again.statistics == session.statistics
    again.push(EVENTS[:1])
    assert again.statistics.late == session.statistics.late + 1


def test_the_same_state_is_the_same_bytes() -> None:
    session = QUERY.open(lateness=5, on_late="drop")
    session.push(EVENTS)
    assert session.snapshot() == session.snapshot() == restored(session).snapshot()


@pytest.fixture
def state() -> bytes:
    session = QUERY.open()
    session.push(EVENTS)
    blob: bytes = session.snapshot()
    return blob


def test_another_version_is_refused(state: bytes) -> None:
    other = state[:10] + (VERSION + 1).to_bytes(4, "little") + state[14:]
    with pytest.raises(ps.StateError, match=f"version {VERSION + 1}; .* reads version {VERSION}"):
        QUERY.open(state=other)


@pytest.mark.parametrize(
    "changed", ["WITHIN 31", "x > 2", "contains; equals b", "EMIT ON TRIGGER", "MIN(a.w)"]
)
def test_the_state_of_another_query_is_refused(state: bytes, changed: str) -> None:
    original = {
        "WITHIN 31": "WITHIN 30",
        "x > 2": "x > 1",
        "contains; equals b": "contains b",
        "EMIT ON TRIGGER": "EMIT ON BOTH",
        "MIN(a.w)": "MAX(a.w)",
    }
    other = ps.query(TEXT.replace(original[changed], changed))
    with pytest.raises(ps.StateError, match="another query"):
        other.open(state=state)


def test_a_query_that_says_the_same_reads_it(state: bytes) -> None:
    same = ps.query(str(QUERY).lower().replace("from s", "FROM otherwise_named"))
    assert same == QUERY
    assert same.open(state=state).statistics.events == len(EVENTS)


def test_damage_is_refused_wherever_it_is(state: bytes) -> None:
    for place in range(14, len(state), max(1, len(state) // 97)):
        damaged = state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :]
        with pytest.raises(ps.StateError, match=r"damaged|another query"):
            QUERY.open(state=damaged)
    for length in (0, 5, 12, 60, len(state) - 1):
        with pytest.raises(ps.StateError):
            QUERY.open(state=state[:length])
    with pytest.raises(ps.StateError):
        QUERY.open(state=state + b"\0")


@pytest.mark.parametrize("thing", ["text", 5, b"", b"GIF89a"])
def test_what_is_no_state_is_refused(thing: object) -> None:
    with pytest.raises(ps.StateError, match="state"):
        QUERY.open(state=thing)  # type: ignore[arg-type]


def test_before_the_first_row_there_is_no_state() -> None:
    with pytest.raises(ps.StateError, match="nothing was pushed yet"):
        QUERY.open().snapshot()


def test_rows_of_other_types_are_refused_after_it_too(state: bytes) -> None:
    session = QUERY.open(state=state)
    with pytest.raises(ps.SchemaError, match="column x has type Float64"):
        session.push(EVENTS[-1:].with_columns(pl.col("x").cast(pl.Float64), pl.col("t") + 50))


OPTIONS = {"lateness": 3, "on_late": "drop", "ties": "first", "schema": {"t": int, "x": int}}
OTHERS = {"lateness": 0, "on_late": "error", "ties": "last", "schema": {"t": int, "x": float}}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_differs_from_the_stored_one_is_refused(option: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    session = query.open(**OPTIONS)
    session.push({"t": 1, "x": 5})
    state = session.snapshot()
    assert query.open(state, **OPTIONS).snapshot() == state
    assert query.open(state, **{option: OPTIONS[option]}).snapshot() == state
    with pytest.raises(ps.StateError, match=r"in this state, not .*leave them out"):
        query.open(state, **{option: OTHERS[option]})


@pytest.mark.parametrize("kind", ["event", "list", "polars", "pandas", "pyarrow"])
def test_a_restored_session_gives_back_the_kind_that_was_pushed(kind: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1], "x": [5]})
    pushed = {
        "event": frame.to_dicts()[0],
        "list": frame.to_dicts(),
        "polars": frame,
        "pandas": frame.to_pandas(),
        "pyarrow": frame.to_arrow(),
    }[kind]
    session = query.open(lateness=3)
    session.push(pushed)
    again = query.open(session.snapshot())
    assert type(again.advance(2)) is type(session.advance(2))
    assert type(again.close()) is type(session.close())


# -- what has a right checksum, and is no state ------------------------------------------------------

FACTS, PARTITIONS, POOL, WAITING, KEYS, BUFFERED, PREVIOUS, DICTIONARY = range(8)


class Stored:
    """A state taken apart, to be changed and put together again with a right checksum."""

    def __init__(self, state: bytes) -> None:
        self.fingerprint, sections = sections_of(state)
        self.sections = [bytes(section) for section in sections]
        self.binding = bound(QUERY, EVENTS.schema)
        self.program = Program.over(self.binding.compiled.program)
        self.partitions, self.pool, self.waiting = (
            np.frombuffer(self.sections[n], np.int64).copy() for n in (PARTITIONS, POOL, WAITING)
        )

    @property
    def first(self) -> Partition:
        return Partition.over(self.partitions, program=self.program, pool=self.pool)

    def slot(self, s: int) -> Slot:
        """The latest interval of a symbol in the first partition."""
        ring = self.first.ring(s)
        return Slot.over(self.pool, int(ring.place(ring.tail - 1)))

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.sections[FACTS])
        return found

    def frame(self, number: int) -> pl.DataFrame:
        return pl.read_ipc_stream(self.sections[number])

    def put(self, number: int, frame: pl.DataFrame) -> None:
        out = io.BytesIO()
        frame.write_ipc_stream(out)
        self.sections[number] = out.getvalue()

    def together(self) -> bytes:
        for number, words in ((PARTITIONS, self.partitions), (POOL, self.pool)):
            self.sections[number] = words.tobytes()
        self.sections[WAITING] = self.waiting.tobytes()
        return with_sections(self.fingerprint, self.sections)


def set_facts(stored: Stored, **changed: object) -> None:
    stored.sections[FACTS] = json.dumps(stored.facts | changed).encode()


def set_field(
    place: Callable[[Stored], Record], field: str, value: int
) -> Callable[[Stored], None]:
    return lambda stored: setattr(place(stored), field, value)


def set_automaton(stored: Stored) -> None:
    stored.first[stored.program.automata_at] = 1 << 40


def set_partners(stored: Stored) -> None:
    word = stored.program.constraints[0].sides[0].partners
    stored.slot(0)[word] = 0
    stored.slot(0)[word + 1] = 1 << 60


def set_range(stored: Stored) -> None:
    stored.slot(0)[stored.program.constraints[0].sides[0].first_starting_after] = 1 << 60


def set_code(stored: Stored) -> None:
    cell = stored.program.cells[stored.program.symbols[0].cell]
    stored.slot(0)[cell.word], stored.slot(0)[cell.word + 1] = 1, 99


def set_candidates(stored: Stored) -> None:
    ring = stored.first.rings[0]
    stored.pool[ring.base + ring.capacity * stored.program.symbols[0].width] = -1


def set_waiting(stored: Stored) -> None:
    """A free list that leads back to where it began."""
    size = WaitingStore.over(stored.waiting, program=stored.program).match_words()
    stored.waiting = np.concatenate([[0, 1], np.zeros(size, np.int64)])


def set_links(stored: Stored) -> None:
    stored.slot(0)[stored.program.symbols[0].waiting_list] = 1 << 40


DAMAGES: dict[str, Callable[[Stored], None]] = {
    "pool": lambda s: setattr(PoolHeader.over(s.pool), "used", 1 << 40),
    "pool cut": lambda s: setattr(s, "pool", s.pool[:-1]),
    "partitions cut": lambda s: setattr(s, "partitions", s.partitions[:-1]),
    "base": set_field(lambda s: s.first.rings[0], "base", 1 << 40),
    "overlap": lambda s: setattr(s.first.rings[1], "base", s.first.rings[0].base),
    "capacity": set_field(lambda s: s.first.rings[0], "capacity", 3),
    "no slots": set_field(lambda s: s.first.rings[0], "capacity", 0),
    "head": set_field(lambda s: s.first.rings[0], "head", -1),
    "tail": set_field(lambda s: s.first.rings[0], "tail", 1 << 61),
    "candidates": set_candidates,
    "mask": set_field(lambda s: s.first, "mask", 1 << 40),
    "waiting count": set_field(lambda s: s.first, "waiting", 1 << 40),
    "unused": set_field(lambda s: s.first, "used", 0),
    "automaton": set_automaton,
    "start": lambda s: setattr(s.slot(0), "start", 1 << 40),
    "partners": set_partners,
    "range": set_range,
    "code": set_code,
    "free list": set_waiting,
    "links": set_links,
    "lateness": lambda s: set_facts(s, lateness=-1),
    "ties": lambda s: set_facts(s, ties="maybe"),
    "latest": lambda s: set_facts(s, latest=1 << 70),
    "clock": lambda s: set_facts(s, next_silence="soon"),
    "counts": lambda s: set_facts(s, seen={"events": -1}),
    "layout": lambda s: set_facts(s, layout=5),
    "pushed": lambda s: set_facts(s, pushed="stones"),
    "bound": lambda s: set_facts(s, bound="00"),
    "no facts": lambda s: s.sections.__setitem__(FACTS, b"[" * 100_000),
    "keys missing": lambda s: s.put(KEYS, s.frame(KEYS)[:1]),
    "keys twice": lambda s: s.put(KEYS, s.frame(KEYS)[[0, 0]]),
    "keys of another type": lambda s: s.put(KEYS, s.frame(KEYS).cast(pl.Binary)),
    "waiting events": lambda s: s.put(BUFFERED, pl.DataFrame({"time": [1]})),
    "previous": lambda s: s.put(PREVIOUS, s.frame(PREVIOUS)[:1]),
    "dictionary": lambda s: s.put(DICTIONARY, s.frame(DICTIONARY)[[0, 0, 0]]),
    "no dictionary": lambda s: s.sections.pop() and None,
    "no sections": lambda s: s.sections.__delitem__(slice(4, None)),
    "arrow": lambda s: s.sections.__setitem__(KEYS, s.sections[KEYS][:-20]),
}


@pytest.fixture(scope="module")
def open_state() -> bytes:
    """A state in whose first partition intervals of both symbols are open, and matches wait."""
    session = QUERY.open()
    for rows in range(1, len(EVENTS)):
        session.push(EVENTS[rows - 1 : rows])
        blob: bytes = session.snapshot()
        stored = Stored(blob)
        if stored.first.mask == 3 and stored.first.waiting:
            return blob
    raise AssertionError("no such state")


@pytest.mark.parametrize("what", DAMAGES)
def test_what_no_stream_can_have_is_refused(open_state: bytes, what: str) -> None:
    stored = Stored(open_state)
    assert QUERY.open(state=stored.together()).snapshot() == open_state
    DAMAGES[what](stored)
    with pytest.raises(ps.StateError, match=r"damaged|another version"):
        QUERY.open(state=stored.together())


@pytest.mark.parametrize("packed", [False, True])
def test_what_announces_more_than_it_holds_is_refused_before_there_is_room_for_it(
    packed: bool,
) -> None:
    values = pl.DataFrame({"body": np.zeros(1 << 16, np.uint8)})
    out = io.BytesIO()
    values.write_ipc_stream(out, compression="lz4" if packed else "uncompressed")
    stream = out.getvalue()
    check_stream(memoryview(stream), packed_bytes=packed)
    announced = (1 << 16).to_bytes(8, "little")
    assert announced in stream
    for place in (stream.index(announced), stream.rindex(announced)):
        bomb = stream[:place] + (1 << 45).to_bytes(8, "little") + stream[place + 8 :]
        with pytest.raises(ValueError, match=r"announces|than the stream|than its batch"):
            check_stream(memoryview(bomb), packed_bytes=packed)
