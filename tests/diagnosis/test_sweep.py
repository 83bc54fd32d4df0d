"""`ps.sweep`: every choice gives what its query gives, and labels say how good it is."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps

_TEXT = """
    FROM s PARTITION BY k ORDER BY t MAX GAP :gap
    DEFINE a AS x > :limit AT LEAST :hold, b AS y > PREV(y)
    PATTERN a overlaps; contains; before b
    WITHIN 20 WHERE MAX(a.x) > :limit + 1
"""


def _rows(seed: int) -> pl.DataFrame:
    rng = Random(seed)
    return pl.DataFrame(
        {
            "t": [t for _ in range(3) for t in range(0, 120, 2)],
            "k": [k for k in "pqr" for _ in range(60)],
            "x": [rng.uniform(0, 10) for _ in range(180)],
            "y": [rng.uniform(0, 10) for _ in range(180)],
        }
    ).sample(fraction=0.9, shuffle=True, seed=seed)


def test_every_choice_gives_what_its_query_gives() -> None:
    rows = _rows(1)
    found = ps.sweep(_TEXT, rows, limit=[2, 5, 7], hold=[0, 2, 4], gap=[3, 9])
    assert found.varied == ("limit", "hold", "gap")
    wanted = [
        (limit, hold, gap, len(ps.query(_TEXT, limit=limit, hold=hold, gap=gap).run(rows)))
        for limit, hold, gap in product([2, 5, 7], [0, 2, 4], [3, 9])
    ]
    assert found.table.rows() == wanted
    assert len({row[3] for row in wanted}) > 3
    assert [len(query.run(rows)) for query in found.queries] == [row[3] for row in wanted]


def test_labels_give_precision_recall_and_lead_time() -> None:
    rows = pl.DataFrame({"t": range(10), "x": [0, 5, 0, 0, 7, 7, 0, 0, 9, 0]})
    text = "FROM s ORDER BY t DEFINE a AS x > :limit AT LEAST :hold PATTERN a WITHIN 9"
    labels = pl.DataFrame({"ts": [5, 8], "te": [7, 9]})

    def measured(**options: Any) -> list[Any]:
        table = ps.sweep(text, rows, labels=labels, **options).table
        return table.select("matches", "precision", "recall", "lead_time").rows()

    # reported at 1, 4 and 8; that of 4 is over at 4, before its label begins
    assert measured(limit=4, hold=0) == [(3, 1 / 3, 0.5, 0)]
    assert measured(limit=4, hold=0, early=1) == [(3, 2 / 3, 1.0, 0)]
    assert measured(limit=6, hold=2) == [(1, 1.0, 0.5, -1)]
    assert measured(limit=99, hold=0) == [(0, None, 0.0, None)]


def test_labels_belong_to_their_partition() -> None:
    rows = pl.DataFrame({"k": ["p", "q"], "t": [1, 1], "x": [5, 0]})
    text = "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > :limit PATTERN a WITHIN 9"
    for key, recall in (("p", 1.0), ("q", 0.0)):
        labels = pl.DataFrame({"k": [key], "ts": [0], "te": [3]})
        assert ps.sweep(text, rows, labels=labels, limit=[1]).table["recall"].to_list() == [recall]
    with pytest.raises(ps.SchemaError, match="labels has no column k"):
        ps.sweep(text, rows, labels=labels.drop("k"), limit=[1])


def test_times_and_durations_are_those_of_the_rows() -> None:
    rows = pl.DataFrame({"t": ["2026-01-01 10:00:00", "2026-01-01 10:00:05"], "x": [5, 5]})
    rows = rows.with_columns(pl.col("t").str.to_datetime())
    labels = rows.select(ts=pl.col("t") + pl.duration(minutes=1))
    labels = labels.with_columns(te=pl.col("ts") + pl.duration(minutes=1))[:1]
    text = "FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST :hold PATTERN a WITHIN 9 s"
    found = ps.sweep(text, rows, labels=labels, early="1 min", hold=["1 s", "5 s"])
    assert [row.total_seconds() for row in found.table["lead_time"]] == [55, 55]


def test_a_heat_map_has_two_parameters() -> None:
    rows = _rows(2)
    found = ps.sweep(_TEXT, rows, limit=[2, 7], hold=[0, 4], gap=5)
    assert found.heat_map().columns == ["limit", "0", "4"]
    assert found.heat_map()["0"].to_list() == found.table.filter(hold=0)["matches"].to_list()
    html = found._repr_html_()
    assert "matches: limit down, hold across" in html
    assert html.count("<td") == 4
    one = ps.sweep(_TEXT, rows, limit=[2, 7], hold=1, gap=5)
    with pytest.raises(ValueError, match="here are limit"):
        one.heat_map()
    assert "<table>" in one._repr_html_()
    with pytest.raises(ValueError, match="no measure recall"):
        found.heat_map("recall")


def test_what_cannot_be_swept_is_refused() -> None:
    rows = _rows(3)
    with pytest.raises(TypeError, match="takes the text of a query"):
        ps.sweep(ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9"), rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="its list is empty"):
        ps.sweep(_TEXT, rows, limit=[], hold=1, gap=5)
    with pytest.raises(ValueError, match="another name"):
        ps.sweep("FROM s DEFINE a AS x > :matches PATTERN a WITHIN 9", rows, matches=[1])
    with pytest.raises(ps.QueryError, match="parameter :gap has no value"):
        ps.sweep(_TEXT, rows, limit=[1], hold=1)


_SEVERAL = """
    FROM s ORDER BY t MAX GAP :gap
    WITH calls FROM began TO ended
    WITH (FROM s DEFINE low AS y < :low AT LEAST :hold PATTERN low WITHIN 20) AS slack
    PARTITION BY k
    DEFINE a AS s.x > :limit, c AS calls.size > :limit, l AS slack, b AS s.y > PREV(y)
    PATTERN a overlaps; contains; before c AND l intersects c AND a disjoint; intersects b
    WITHIN 20
"""


def test_every_choice_gives_what_its_query_over_several_streams_gives() -> None:
    rng = Random(4)
    began = [rng.randrange(100) for _ in range(60)]
    calls = {
        "k": [k for k in "pqr" for _ in range(20)],
        "began": began,
        "ended": [at + rng.randint(1, 12) for at in began],
        "size": [rng.uniform(0, 10) for _ in began],
    }
    rows = {"s": _rows(4), "calls": pl.DataFrame(calls)}
    grid = {"limit": [2, 5], "low": [3, 6], "hold": [0, 3], "gap": [3, 9]}
    found = ps.sweep(_SEVERAL, rows, **grid)
    wanted = [
        (*choice, len(ps.query(_SEVERAL, **dict(zip(grid, choice, strict=True))).run(rows)))
        for choice in product(*grid.values())
    ]
    assert found.table.rows() == wanted
    assert len({row[-1] for row in wanted}) > 6


def test_lengths_that_are_bridged_are_compared_with_none() -> None:
    text = "FROM s ORDER BY t DEFINE a AS x > 2 BRIDGING :gap AT LEAST :hold PATTERN a WITHIN 99"
    rows = pl.DataFrame({"t": range(12), "x": [3] * 5 + [0] + [3] * 4 + [0, 0]})
    found = ps.sweep(text, rows, gap=[0, 1], hold=[4, 8])
    assert found.table.rows() == [(0, 4, 2), (0, 8, 0), (1, 4, 1), (1, 8, 1)]
    assert found.queries[0].symbol("a").bridging is None
