"""Cases of queries over one stream, many of one query, which the laws of tests/test_laws.py are held on."""

from __future__ import annotations

import pytest

from tests import engines
from tests.many_of_one_stream import (
    DRAWS,
    cases_for,
    cases_in,
    disagreement,
    many_cases,
    of_partition,
)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_query_has_many_cases_of_which_the_first_are_its_own(draw: str) -> None:
    drawn = ((seed, DRAWS[draw](seed)) for seed in range(99))
    seed = next(n for n, one in drawn if len(one.rows) > 5 and len(one.definitions) <= 3)
    alone, many = DRAWS[draw](seed), many_cases(seed, draw)
    assert cases_in(many) > 40
    assert [row for row in many.rows if ":" not in (row["k"] or "")] == sorted(
        alone.rows, key=lambda row: row["ts"]
    )
    keys = {tuple(row[name] for name in many.keys) for row in many.rows}
    told = {repr([{**row, "k": None} for row in of_partition(many, key).rows]) for key in keys}
    assert len(told) > 40  # they have other rows, not the same under other keys


def test_single_events_are_pushed_of_few_cases() -> None:
    assert cases_in(cases_for("event", 1)) < 12 < cases_in(cases_for("frame", 1))


def test_a_row_that_is_missing_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = next(d for seed in range(9) if len((d := many_cases(seed, most=10)).expected()) > 9)
    assert disagreement(drawn, "frame") is None
    missing = drawn.expected()[-1]

    def forgetful(*given: object) -> tuple[engines.Rows, object]:
        rows, plan = engines._frame(*given)  # type: ignore[arg-type]
        return [row for row in rows if row != missing], plan

    monkeypatch.setattr(engines, "ENGINES", {**engines.ENGINES, "frame": forgetful})
    why = disagreement(drawn, "frame")
    assert why is not None
    assert f"partition {tuple(missing[name] for name in drawn.keys)}" in why
