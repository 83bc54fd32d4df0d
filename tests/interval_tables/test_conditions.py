"""Relations and distances are read as they are written."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.interval_tables.boxes import _rectangles
from piestream.interval_tables.conditions import Distance, read_distances, read_relations
from piestream.plan.columns import TimeColumn
from piestream.relations import ANY, SETS, Relation, inverse, names
from tests.interval_tables import brute

_ENDS = {side: {"ts": "ts", "te": "te", "end": "te"} for side in "xy"}
_INTEGERS = TimeColumn("ts", pl.Int64(), None)
_TIMES = TimeColumn("ts", pl.Datetime("ms"), 1_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y.ts - x.te <= 10", [Distance("ts", "te", None, 10)]),
        ("y.ts - x.te < 10", [Distance("ts", "te", None, 9)]),
        ("y.ts - x.te >= -3", [Distance("ts", "te", -3, None)]),
        ("x.te - y.ts > 3", [Distance("ts", "te", None, -4)]),
        ("x.te - y.ts = 3", [Distance("ts", "te", -3, -3)]),
        ("x.te - y.ts BETWEEN -1 AND 4", [Distance("ts", "te", -4, 1)]),
        ("x.ts < y.ts", [Distance("ts", "ts", 1, None)]),
        ("Y.TE >= X.end", [Distance("te", "te", 0, None)]),
        ("x.ts = y.ts and y.te - x.te between 0 and 5",
         [Distance("ts", "ts", 0, 0), Distance("te", "te", 0, 5)]),
    ],
)  # fmt: skip
def test_a_distance_bounds_an_endpoint_of_y(text: str, expected: list[Distance]) -> None:
    assert list(read_distances(text, _ENDS, _INTEGERS)) == expected


def test_distances_have_units_of_time() -> None:
    (distance,) = read_distances("y.ts - x.te BETWEEN 0 AND 1.5 min", _ENDS, _TIMES)
    assert distance == Distance("ts", "te", 0, 90_000)


def test_every_set_of_relations_is_what_its_name_says() -> None:
    said = {
        "intersects": lambda xs, xe, ys, ye: bool(set(range(xs, xe)) & set(range(ys, ye))),
        "disjoint": lambda xs, xe, ys, ye: not set(range(xs, xe)) & set(range(ys, ye)),
        "covers": lambda xs, xe, ys, ye: set(range(xs, xe)) >= set(range(ys, ye)),
        "inside": lambda xs, xe, ys, ye: set(range(xs, xe)) <= set(range(ys, ye)),
        "precedes": lambda xs, xe, ys, ye: xe <= ys,
        "succeeds": lambda xs, xe, ys, ye: ye <= xs,
    }
    intervals = [(ts, te) for ts in range(6) for te in range(ts + 1, 7)]
    for name, holds in said.items():
        pairs = [(x, y) for x in intervals for y in intervals if holds(*x, *y)]
        found = {brute.relation_of(brute.Row(*x), brute.Row(*y)) for x, y in pairs}
        assert set(names(SETS[name])) == found
        assert read_relations(name.upper()) == SETS[name]
    assert SETS["inside"] == inverse(SETS["covers"])
    assert SETS["succeeds"] == inverse(SETS["precedes"])


def test_any_set_of_relations_is_few_disjoint_boxes() -> None:
    for word in range(1, 1 << 15, 31):
        relations = Relation(word) & ANY
        found = [rectangle.relations() for rectangle in _rectangles(relations)]
        assert sum(found) == relations  # as numbers: none has a relation twice
        assert len(found) <= 6
    for name in ("intersects", "covers", "inside", "precedes", "succeeds"):
        assert len(_rectangles(SETS[name])) == 1, name


def test_a_set_of_flags_is_taken_too() -> None:
    x = pl.DataFrame({"ts": [0], "te": [2]})
    assert len(ps.join(x, x, Relation.EQUALS | Relation.MEETS)) == 1
    with pytest.raises(ps.QueryError, match="the set of relations is empty"):
        ps.join(x, x, Relation(0))
