"""Random row patterns against the oracle: whole frames, sessions cut anyhow, and what is certain when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.engine import row_calls
from piestream.language.row_patterns import MatchMode, RowPattern
from tests.row_patterns.oracle import Match, certain, matches, results
from tests.row_patterns.randoms import FUTURES, LETTERS, Case, random_case, with_what_holds

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}


def _frame(events: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(events, schema=_TYPES)


def _plain(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [[round(v, 9) if isinstance(v, float) else v for v in row] for row in rows]


def expected_rows(case: Case, found: Any = None) -> list[list[Any]]:
    rows = case.query.rows
    assert rows is not None
    found = matches(rows, case.rows) if found is None else found
    return _plain([tuple(row) for row in results(rows, case.rows, found)])


def given_rows(case: Case, result: pl.DataFrame) -> list[list[Any]]:
    """The measures, and with ALL ROWS the time before them; not the columns that follow."""
    assert case.query.rows is not None
    names = [measure.alias for measure in case.query.rows.measures]
    return _plain(result.select(["t"] * case.query.rows.all_rows + names).rows())


_KINDS = pytest.mark.parametrize("memory", [False, True], ids=["of one row", "with memory"])


@_KINDS
def test_a_frame_gives_the_matches_of_the_oracle(seeds: list[int], memory: bool) -> None:
    for seed in seeds:
        case = random_case(seed, 7 if memory else 10, memory)
        result = case.query.run(_frame(case.events()))
        assert given_rows(case, result) == expected_rows(case), f"seed {seed}: {case.query}"


@_KINDS
def test_many_partitions_do_not_disturb_each_other(few_seeds: list[int], memory: bool) -> None:
    for seed in few_seeds:
        case = random_case(seed, 7, memory)
        others = [_other_rows(case, seed * 7 + n) for n in range(4)]
        cases = [case, *others]
        events = [event for key, one in enumerate(cases) for event in one.events(key)]
        Random(seed).shuffle(events)
        result = case.query.run(_frame(events), threads=2)
        for key, one in enumerate(cases):
            assert given_rows(one, result.filter(pl.col("k") == key)) == expected_rows(one), (
                f"seed {seed}"
            )


def _other_rows(case: Case, seed: int) -> Case:
    return Case(case.query, with_what_holds(case.query, random_case(seed, 7).rows))


@_KINDS
def test_a_session_gives_the_rows_of_a_frame_however_it_is_cut(
    few_seeds: list[int], memory: bool
) -> None:
    for seed in few_seeds:
        random = Random(seed)
        case = random_case(seed, 8 if memory else 20, memory)
        rest = _frame(case.events())
        session = case.query.open(schema=_TYPES)
        given = []
        while len(rest):
            size = random.randint(1, 4)
            if random.random() < 0.3:
                session = case.query.open(state=session.snapshot())
            given.append(session.push(rest[:size]))
            rest = rest[size:]
        last = session.close()
        given.append(last if isinstance(last, pl.DataFrame) else given[-1].clear())
        assert given_rows(case, pl.concat(given)) == expected_rows(case), (
            f"seed {seed}: {case.query}"
        )


@_KINDS
def test_pauses_change_nothing(
    few_seeds: list[int], memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in few_seeds:
        case = random_case(seed, 8, memory)
        monkeypatch.setattr(row_calls, "_PAUSE_WORK", 1 + seed % 5)
        monkeypatch.setattr(row_calls, "_ROWS_AT_ONCE", 1 + seed % 3)
        result = case.query.run(_frame(case.events()))
        assert given_rows(case, result) == expected_rows(case), f"seed {seed}: {case.query}"


@_KINDS
def test_single_events_give_the_rows_of_a_frame(few_seeds: list[int], memory: bool) -> None:
    for seed in few_seeds:
        case = random_case(seed, 7, memory)
        session = case.query.open(schema=_TYPES)
        given = [row for event in case.events() for row in session.push(event)]
        given += session.close() if case.rows else []
        names = _frame(given[:0]).columns if not given else list(given[0])
        result = pl.DataFrame(given, schema=None if given else dict.fromkeys(names, pl.Int64))
        if not given:
            assert expected_rows(case) == []
            continue
        assert given_rows(case, result) == expected_rows(case), f"seed {seed}: {case.query}"


@_KINDS
def test_a_match_is_given_at_the_first_row_at_which_it_is_certain(
    few_seeds: list[int], memory: bool
) -> None:
    for seed in few_seeds:
        case = random_case(seed, 5 if memory else 6, memory, ahead=False, is_open=True)
        rows = case.query.rows
        assert rows is not None
        if rows.all_rows or any(item.shift > 0 for m in rows.measures for _, item in m.items):
            continue
        given = 0
        for count, known in _known(case, LETTERS if not memory else FUTURES, 3):
            given += count
            if memory and given < len(known) and _grows_for_long(rows):
                continue
            assert given == len(known), f"seed {seed}: {case.query}"


def _grows_for_long(rows: RowPattern) -> bool:
    """Whether what the futures tried do not show may come later: one more part of many rows."""
    return rows.mode is MatchMode.MAXIMAL


def test_no_match_is_given_before_it_is_certain(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed, 5, memory=True)
        rows = case.query.rows
        assert rows is not None
        if rows.all_rows:
            continue
        given = 0
        for count, known in _known(case, FUTURES, 2):
            given += count
            assert given <= len(known), f"seed {seed}: {case.query}"


def _known(
    case: Case, letters: Sequence[Mapping[str, Any]], ahead: int
) -> Iterator[tuple[int, list[Match]]]:
    """Behind each row, how many matches a session has given at it, and all that are certain."""
    rows = case.query.rows
    assert rows is not None
    session = case.query.open(schema=_TYPES)

    def completed(some: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        if letters is LETTERS:
            return some
        # ever larger values, so that one can be beyond all that came before it
        larger = [
            {**row, "x": row["x"] and row["x"] * 1000 ** max(0, number - len(case.rows))}
            for number, row in enumerate(some)
        ]
        return with_what_holds(case.query, larger)

    for count, event in enumerate(case.events(), 1):
        given = session.push(event)
        yield len(given), certain(rows, case.rows[:count], letters, ahead, completed)
