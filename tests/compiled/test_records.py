"""Records: the same declaration says where fields lie to the loops and to Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import (
    Array,
    Carried,
    Record,
    Rows,
    Table,
    Words,
    assemble,
    kernel,
    method,
)

_ROOT = Path(__file__).parents[2]


class Span(Record):
    start: int
    end: int

    @method
    def length(self) -> int:
        return self.end - self.start


class Shelf(Record):
    count: int
    pair: Annotated[Words, 2]
    fixed: Annotated[Rows[Span], 2]
    spans: Table[Span]
    last: int
    factor: Carried[int]

    @method
    def total(self) -> int:
        found = 0
        for number in range(self.count):
            found += self.spans[number].length() * self.factor
        return found


class LongSpan(Span):
    extra: int


@kernel
def _work(words: Array, factor: int) -> int:
    shelf = Shelf(pointer(words), factor)
    shelf.fixed[1].end = 40 + shelf.pair[1]
    shelf.pair[0] = 7
    shelf.last += 1
    shelf[0] += 0
    at_word(shelf.spans, 0)[1] = 50
    return shelf.total() + LongSpan(at_word(shelf.spans, 0)).length()


def shelf_words() -> np.ndarray:
    return assemble(
        Shelf, spans=[Span.packed(start=1, end=5), Span.packed(start=8, end=9)], count=2, last=3
    )


def test_fields_lie_where_they_are_declared() -> None:
    names = ("count", "pair", "fixed", "spans", "last")
    assert [Shelf.offset(name) for name in names] == [0, 1, 3, 7, 8]
    assert (Span.size, Shelf.size, LongSpan.size) == (2, 9, 3)


def test_a_field_of_many_records_is_a_column() -> None:
    rows = np.arange(18).reshape(2, 9)
    assert Shelf.column_of(rows, "last").tolist() == [8, 17]
    Shelf.column_of(rows, "pair", 1)[:] = 70
    assert rows[:, 2].tolist() == [70, 70]


class _Books(Record):
    titles: Table[Span]
    pages: Table[Span]
    count: int


def test_a_table_ends_where_the_next_one_begins() -> None:
    words = assemble(_Books, count=2, titles=[1, 2], pages=[3, 4, 5, 6])
    assert _Books.table_of(words, "titles").tolist() == [1, 2]
    _Books.table_of(words, "pages")[1:3] = 9
    assert _Books.table_of(words, "pages").tolist() == [3, 9, 9, 6]


def test_loops_and_python_read_and_write_the_same_words() -> None:
    words = shelf_words()
    shelf = Shelf.over(words, factor=10)
    assert shelf.total() == 10 * (4 + 1)
    shelf.pair[1] = 2
    assert _work(words, 10) == 10 * (49 + 1) + 49
    assert (shelf.fixed[1].end, shelf.pair[0], shelf.last, shelf.spans[0].end) == (42, 7, 4, 50)
    assert isinstance(shelf.last, int)
    assert words.tolist() == [2, 7, 2, 0, 0, 0, 42, 9, 4, 1, 50, 8, 9]


def test_a_record_is_packed_from_all_its_fields() -> None:
    assert Span.packed(end=2, start=1) == [1, 2]
    packed = Shelf.packed(count=1, pair=[2, 3], fixed=[[4, 5], [6, 7]], spans=8, last=9)
    assert packed == list(range(1, 10))
    with pytest.raises(TypeError, match=r"Span .*: end"):
        Span.packed(start=1)
    with pytest.raises(TypeError, match=r"Span .*: stop"):
        Span.packed(start=1, end=2, stop=3)


def test_python_looks_neither_behind_a_record_nor_behind_its_rows() -> None:
    words = np.arange(5)
    assert Span.over(words, 3).end == 4
    with pytest.raises(IndexError):
        _ = Span.over(words, 4).end
    with pytest.raises(IndexError):
        _ = Span.over(words, 3)[-1]
    with pytest.raises(IndexError):
        _ = Shelf.over(shelf_words()).fixed[2]
    with pytest.raises(AttributeError, match="stop"):
        _ = Span.over(words).stop  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="stop"):
        Span.over(words).stop = 1  # type: ignore[attr-defined]


def test_the_type_checker_knows_the_fields_of_records_in_loops(tmp_path: Path) -> None:
    """A misspelt field and a record of another kind are faults that it reports."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from piestream.compiled.records import kernel\n"
        "from piestream.joins.records import Slot, Step\n"
        "@kernel\n"
        "def misspelt(slot: Slot) -> int:\n"
        "    return slot.strat\n"
        "@kernel\n"
        "def mistaken(step: Step) -> int:\n"
        "    return misspelt(step)\n"
    )
    pytest.importorskip("mypy")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(wrong)],
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert '"Slot" has no attribute "strat"' in found.stdout, found.stdout + found.stderr
    assert 'incompatible type "Step"; expected "Slot"' in found.stdout


def test_records_of_one_name_in_two_modules_are_two_types() -> None:
    from piestream.interval_tables.loops.records import Bound as OfBoxes
    from piestream.joins.scratch import Bound as OfJoins

    assert OfBoxes.type != OfJoins.type
