"""The registry of RETURN's aggregates: complete, and each over the columns that it takes."""

from __future__ import annotations

from dataclasses import replace
from statistics import variance

import polars as pl
import pytest

import piestream as ps
from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language.aggregates import AGGREGATES
from piestream.plan.aggregates import AGGREGATIONS, Selection, check_complete
from piestream.plan.binding import bind
from piestream.plan.columns import FLOAT


def _without(registry: dict, name: str) -> dict:
    return {n: entry for n, entry in registry.items() if n != name}


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_that_lacks_a_part_is_refused(name: str) -> None:
    declared, computed = dict(AGGREGATES), dict(AGGREGATIONS)
    check_complete(declared, computed)
    with pytest.raises(TypeError, match=f"{name} is not computed"):
        check_complete(declared, _without(computed, name))
    with pytest.raises(TypeError, match=f"{name} is not declared"):
        check_complete(_without(declared, name), computed)
    turned = replace(declared[name], needs_column=not declared[name].needs_column)
    with pytest.raises(TypeError, match="another kind of operand"):
        check_complete({**declared, name: turned}, computed)
    nowhere = replace(computed[name], over={})
    with pytest.raises(TypeError, match="not computed over floats"):
        check_complete(declared, {**computed, name: nowhere})


def test_every_form_of_an_aggregate_is_kept_in_equally_many_words() -> None:
    one = AGGREGATIONS["SUM"].over[FLOAT]
    uneven = replace(
        AGGREGATIONS["SUM"], over={**AGGREGATIONS["SUM"].over, FLOAT: replace(one, words=())}
    )
    with pytest.raises(TypeError, match="more words in one form"):
        check_complete(AGGREGATES, {**AGGREGATIONS, "SUM": uneven})


def test_every_kind_of_cell_has_a_size_and_is_used() -> None:
    aggregations = AGGREGATIONS.values()
    used = [c for a in aggregations for c in a.over.values()]
    used += [a.over_events for a in aggregations if a.over_events is not None]
    assert {kind for computation in used for kind, _ in computation.words} == set(CellKind)
    assert CELL_SIZE.keys() == set(CellKind)


def _row(values: pl.Series, returned: str) -> dict[str, object]:
    frame = pl.DataFrame({"ts": range(len(values) + 1), "v": values.extend_constant(None, 1)})
    query = ps.query(
        f"FROM s ORDER BY ts DEFINE a AS ts < {len(values)} PATTERN a WITHIN 100 "
        f"EMIT ON COMPLETION RETURN {returned}"
    )
    (row,) = query.run(frame.head(len(values) + 1)).to_dicts()
    return row


def test_the_variance_of_far_away_numbers_keeps_its_digits() -> None:
    near = [0.1, 0.4, 0.2, 0.9, 0.3]
    far = [1e9 + v for v in near]
    row = _row(pl.Series(far), "VARIANCE(a.v) AS v, STDDEV(a.v) AS d")
    assert row["v"] == pytest.approx(variance(far), rel=1e-6)
    assert row["d"] == pytest.approx(variance(far) ** 0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"), [([7], None), ([7, None], None), ([1, 4], 4.5), ([2, 2, 2], 0.0)]
)
def test_the_variance_is_that_of_a_sample(values: list[int | None], expected: object) -> None:
    row = _row(pl.Series(values, dtype=pl.Int64), "VARIANCE(a.v)")
    assert row["variance_a_v"] == expected


_TYPES = {
    "text": pl.String(),
    "time": pl.Datetime("us"),
    "flag": pl.Boolean(),
    "large": pl.UInt64(),
    "money": pl.Decimal(10, 2),
    "nothing": pl.Null(),
}


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("column", _TYPES)
def test_what_calculates_takes_numbers_only(name: str, column: str) -> None:
    calculates = name in ("SUM", "AVG", "STDDEV", "VARIANCE")
    query = ps.query(
        f"FROM s ORDER BY ts DEFINE a AS ts > 0 PATTERN a WITHIN 9 RETURN {name}(a.{column}) AS v"
    )
    frame = pl.DataFrame(schema={"ts": pl.Int64, **_TYPES})
    if calculates and column in ("text", "time"):
        with pytest.raises(ps.QueryError, match=f"{name} needs a numeric column; {column} has"):
            query.run(frame)
        return
    result = query.run(frame).schema["v"]
    if any(isinstance(c, Selection) for c in AGGREGATIONS[name].over.values()):
        assert result == _TYPES[column]
    elif name == "COUNT" or (name == "SUM" and column in ("flag", "nothing")):
        assert result == pl.Int64
    else:
        assert result == pl.Float64


@pytest.mark.parametrize("name", ["FIRST", "LAST", "MIN", "MAX"])
def test_a_partition_column_needs_no_cell(name: str) -> None:
    """All its events have the same value, which every row has anyway."""
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS ts > 0 PATTERN a WITHIN 9 "
        f"RETURN {name}(a.k) AS v"
    )
    binding = bind(query, {"ts": pl.Int64(), "k": pl.String()})
    assert binding.attributes == ()
    assert query.run(pl.DataFrame({"ts": [1], "k": ["x"]}))["v"].to_list() == ["x"]
