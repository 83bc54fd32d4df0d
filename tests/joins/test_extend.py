"""Extension finds every match once: through cycles, ranges, dropped intervals and full buffers."""

from __future__ import annotations

from itertools import combinations, product

import polars as pl
import pytest

from piestream.language.parts import Emit
from tests.joins.counting import stream_of
from tests.joins.reference import expected
from tests.joins.state import opened
from tests.joins.streams import RELATIONS_OF_MODE, Pattern, check, noise

APART = "before; meets; overlaps; contains; after"
CYCLES = {
    "triangle": ("ab", "bc", "ac"),
    "square": ("ab", "bc", "cd", "ad"),
    "K4": tuple(x + y for x, y in combinations("abcd", 2)),
    "bowtie": ("ab", "bc", "ac", "cd", "de", "ce"),
}


def cycle(shape: str, *words: str, within: int, **options: object) -> Pattern:
    """Constraints along the edges of a shape; the words are dealt out in turn."""
    edges = CYCLES[shape]
    clauses = tuple(f"{x} {words[number % len(words)]} {y}" for number, (x, y) in enumerate(edges))
    return Pattern(clauses, within, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", CYCLES)
@pytest.mark.parametrize("mode", RELATIONS_OF_MODE)
def test_cycles_of_every_scan_mode(mode: str, shape: str) -> None:
    words = "contains; overlaps; overlapped-by; during; equals; starts"
    if mode != "ALL":
        words = f"starts; equals; {RELATIONS_OF_MODE[mode]}"
    pattern = cycle(shape, words, within=60)
    met = 0
    for seed, change in enumerate([(0.4,), (0.1, 0.5, 0.2, 0.4), (0.5, 0.3, 0.1, 0.3)]):
        met += len(check(pattern, noise(seed, "abcde", 250, change, together=0.5), at_least=0))
    assert met > 0


@pytest.mark.parametrize("shape", CYCLES)
@pytest.mark.parametrize("closing", ["before", "after", APART, "followed-by; before; after"])
def test_cycles_that_close_over_what_lies_apart(closing: str, shape: str) -> None:
    """Which of the constraints is the check and which the step depends on what is decided last."""
    wide = "overlaps; meets; during; contains; after; before"
    for words in ((wide, wide, closing), (closing, f"{wide}; followed-by", wide)):
        pattern = cycle(shape, *words, within=12)
        met = 0
        for seed, change in enumerate([(0.4,), (0.2, 0.5, 0.2)]):
            met += len(check(pattern, noise(seed, "abcde", 100, change), at_least=0))
        assert met > 0


@pytest.mark.parametrize("emit", Emit)
@pytest.mark.parametrize(
    "clauses",
    [
        ("a during b", "c during b"),
        ("a before b", "c before b"),
        ("b before a", "b before c"),
        ("a overlaps; before b", "c overlaps; before b"),
        ("a overlaps; during b", "c overlaps; during b", "c overlaps; after d"),
    ],
    ids=" ".join,
)
def test_twins_without_a_constraint_never_bind_one_interval(
    clauses: tuple[str, ...], emit: Emit
) -> None:
    pattern = Pattern(clauses, 20, emit.value, columns={"c": "a"})
    for seed in range(3):
        frame = noise(seed, "abd", 120, (0.5, 0.2, 0.3))
        rows = check(pattern, frame)
        with_itself = pattern.having(columns={"c": "k"})
        doubled = frame.with_columns(k="a")
        assert len(expected(with_itself.query, doubled)) > len(rows), "nothing to keep apart"


def three_twins() -> Pattern:
    return Pattern(("a during d", "b during d", "c during d"), 30, columns={"b": "a", "c": "a"})


def test_three_twins_are_three_intervals() -> None:
    check(three_twins(), noise(2, "ad", 150, (0.5, 0.1)), at_least=30)


DROPPED = ("AT MOST 2", "AT LEAST 3", "AT LEAST 2 AT MOST 4")


@pytest.mark.parametrize("emit", Emit)
@pytest.mark.parametrize("bounds", DROPPED)
@pytest.mark.parametrize(
    "clauses",
    [
        ("a before b", "z contains; overlaps a"),
        ("a before b", "a before c"),
        ("a before; meets b", "c overlaps; contains a", "b before; overlaps d"),
        ("b after a", "b after c", "a overlaps; before c"),
        ("a followed-by; overlaps b", "a contains; before c", "b before; followed-by d"),
    ],
    ids=" ".join,
)
def test_what_begins_in_the_slot_of_a_dropped_interval(
    clauses: tuple[str, ...], bounds: str, emit: Emit
) -> None:
    """Where partners begin after an interval's end, the first of them may have got another's slot."""
    symbols = Pattern(clauses, 9).symbols
    for bounded in ({"b": bounds}, {"b": bounds, symbols[-1]: "AT MOST 5"}, {"a": bounds}):
        pattern = Pattern(clauses, 25, emit.value, bounds=bounded)
        check(pattern, noise(len(bounded), "abcdz", 150, (0.4, 0.5, 0.3, 0.3, 0.25)))


def test_a_slot_given_back_and_used_again_is_found_from_the_earlier_side() -> None:
    """b is open when a ends, and too long; the next b begins after a and gets its slot."""
    spans = {"b": [(1, 9), (12, 14), (20, 28), (30, 31)], "a": [(2, 4), (21, 23)]}
    # z is valid at its end: so it is the last to be known, and a's partners are looked up then
    frame = stream_of({**spans, "z": [(1, 18), (19, 40)]})
    pattern = Pattern(
        ("a before b", "z contains a"), 100, bounds={"b": "AT MOST 3", "z": "AT MOST 50"}
    )
    rows = check(pattern, frame)
    assert [(b, a) for _, _, _, b, _, a, _ in rows] == [(12, 2), (30, 2), (30, 21)]


@pytest.mark.parametrize("emit", Emit)
@pytest.mark.parametrize("mode", RELATIONS_OF_MODE)
@pytest.mark.parametrize("within", [6, 9, 14])
def test_partners_that_left_the_window_at_both_ends(within: int, mode: str, emit: Emit) -> None:
    """Intervals about as long as the window: of a range of partners the lowest are gone."""
    star = Pattern(
        (
            f"b {RELATIONS_OF_MODE[mode]} a",
            f"b {RELATIONS_OF_MODE[mode]}; starts c",
            "b overlaps; contains; meets d",
        ),
        within,
        emit.value,
    )
    for seed, change in enumerate([(0.4, 0.1, 0.4, 0.2), (0.5, 0.2, 0.3, 0.3)]):
        check(star, noise(seed, "abcd", 400, change), at_least=0)
        check(star.having(clauses=star.clauses[:2]), noise(seed, "abcd", 300, change))


def many(a: int, c: int) -> pl.DataFrame:
    """One b that contains many a and c and meets d; then a few more of the same."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "abcd"}
    zero = 1
    for _ in range(2):
        end = zero + 4 * max(a, c) + 5
        spans["b"].append((zero, end))
        spans["a"] += [(zero + 1 + 4 * i, zero + 3 + 4 * i) for i in range(a)]
        spans["c"] += [(zero + 2 + 4 * i, zero + 4 + 4 * i) for i in range(c)]
        spans["d"].append((end, end + 3))
        zero = end + 10
    return stream_of(spans)


MANY = ("b contains a", "b contains c", "b meets d")


@pytest.mark.parametrize("emit", Emit)
@pytest.mark.parametrize(
    "sizes", [(1, 63), (1, 64), (1, 65), (65, 1), (7, 19), (8, 16), (50, 60)], ids=str
)
def test_a_walk_goes_on_where_it_stopped_for_want_of_room(
    sizes: tuple[int, int], emit: Emit
) -> None:
    """The buffers for the matches of one event, for rows and for waiting ones grow in mid-scan."""
    frame = many(*sizes)
    rows = check(Pattern(MANY, 10**6, emit.value), frame, ways=("whole", "cut", "restored"))
    found = 2 * sizes[0] * sizes[1]
    assert len(rows) == found * (2 if emit is Emit.BOTH else 1)


@pytest.mark.parametrize("check_c", ["before; meets; overlaps", "after; overlapped-by; during"])
def test_a_full_buffer_within_a_cycle(check_c: str) -> None:
    """The candidate at which the scan stopped is neither lost nor reported twice."""
    pattern = Pattern((*MANY, f"a {check_c} c"), 10**6)
    rows = check(pattern, many(40, 50), ways=("whole", "cut"))
    assert len(rows) > 64 * 20


def test_several_items_of_one_event_share_the_buffer() -> None:
    """d and e begin at once: each pair of theirs completes its part, the last one all the rest."""
    spans = {
        "b": [(1, 60)],
        "a": [(2 + 4 * i, 4 + 4 * i) for i in range(12)],
        "c": [(3 + 4 * i, 5 + 4 * i) for i in range(12)],
        "d": [(60, 62)],
        "e": [(60, 63)],
    }
    tree = ("b contains a", "b contains c", "b meets d", "b meets e")
    rows = check(Pattern(tree, 10**6), stream_of(spans))
    assert len(rows) == 144
    check(Pattern((*tree, "d starts; equals e"), 10**6, "BOTH"), stream_of(spans), at_least=144)


def test_a_scan_looks_at_few_more_than_it_finds() -> None:
    """Only the ends are looked at where nothing contained is a partner, checked or not."""
    for words, most in (
        ("overlaps; overlapped-by; meets", 4),
        # of what may lie apart it is not known which partners lead on: all ends are entered
        ("before; overlaps; overlapped-by; meets", 4),
        ("followed-by; overlaps; overlapped-by", 8),
    ):
        spans = {
            "a": [(10, 5_000)],
            "b": [(5, 12), *((20 + 10 * i, 25 + 10 * i) for i in range(400)), (4_990, 5_010)],
            "c": [(4_980, 6_000)],
        }
        pattern = Pattern((f"a {words} b", "a overlaps c"), 10**6)
        stream = opened(pattern, stream_of(spans))
        rows = stream.process(stream_of(spans)).rows()
        assert rows == expected(pattern.query, stream_of(spans))
        assert len(rows) == 2
        assert stream.detector.work.steps <= most


def test_an_open_partner_is_taken_as_far_as_it_is_known() -> None:
    """An open interval that is not valid yet, or did not begin after the other's end, waits."""
    for bounds, emit in product(("", "AT LEAST 4", "AT MOST 6"), Emit):
        pattern = Pattern(
            ("a before b", "c contains; overlaps a", "c overlaps; before; contains b"),
            40,
            emit.value,
            bounds={"b": bounds},
        )
        for seed in range(3):
            check(pattern, noise(seed, "abc", 150, (0.5, 0.25, 0.12)))


PLANS = {
    "chain": (
        "a overlaps; contains; meets b",
        "b overlaps; contains; starts c",
        "c before; overlaps d",
    ),
    "star": (
        "a contains; overlaps b",
        "a contains; overlapped-by c",
        "a after; overlaps; during d",
    ),
    "triangle": (
        "a overlaps; contains b",
        "b overlaps; before; during c",
        "a before; contains; overlaps c",
    ),
    "apart": ("a before b", "a contains; overlaps c", "b overlaps; followed-by d"),
}


@pytest.mark.parametrize("emit", Emit)
@pytest.mark.parametrize("shape", PLANS)
def test_orders_of_joins_that_change_in_mid_stream_change_nothing(
    shape: str, emit: Emit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan follows the live state every few events; which symbols are frequent turns round."""
    monkeypatch.setattr("piestream.engine.adaption.SAMPLE_STEPS", 0)
    pattern = Pattern(PLANS[shape], 25, emit.value, bounds={"b": "AT LEAST 2"})
    often = [0.5, 0.1, 0.3, 0.05]
    pieces = [noise(k, "abcd", 80, often[k:] + often[:k]) for k in range(4)]
    frame = pl.concat([piece.with_columns(pl.col("ts") + 80 * k) for k, piece in enumerate(pieces)])
    check(pattern, frame, at_least=1, ways=("whole", "cut", "restored", "events"))
    stream = opened(pattern, frame)
    seen = set()
    for first in range(0, len(frame), 8):
        stream.process(frame[first : first + 8])
        seen.add(stream.detector.program.tobytes())
    assert len(seen) > 1, "the plan never changed"
