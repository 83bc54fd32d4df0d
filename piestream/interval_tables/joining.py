"""The interval join, and which relation each pair of intervals is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import polars as pl

from piestream.compiled.constants import NONE
from piestream.compiled.records import Array
from piestream.expressions.columns import column_named
from piestream.interval_tables.conditions import RelationsLike, read_distances, read_relations
from piestream.interval_tables.finding import PairFinder, Piece
from piestream.interval_tables.keys import Keys, group_keys, key_names
from piestream.interval_tables.naming import relation_names
from piestream.interval_tables.tables import (
    Given,
    Side,
    Table,
    checked_names,
    read_frame,
    read_tables,
    suffixed,
)
from piestream.language.inputs import AnyFrame, Events
from piestream.relations import ANY, Relation

__all__ = ["join", "join_pieces", "relate"]

#: Which rows a join gives.
How = Literal["inner", "left", "semi", "anti"]
_HOWS = ("inner", "left", "semi", "anti")

#: About so many pairs are worked at a time: their memory is used again for the next.
_PAIRS = 1 << 18


@dataclass(frozen=True)
class _Join:
    """A join that was checked: its tables, and what is to be made of their pairs."""

    given: Given
    x: Table
    y: Table
    finder: PairFinder
    relations: Relation
    how: How
    relation: str | None
    x_names: list[str]
    y_names: dict[str, str]  # what each column of y that is given is called

    def pieces(self, pairs: int) -> Iterator[pl.DataFrame]:
        """The result in order, in pieces of about so many pairs; at least one, if only an empty one."""
        if self.how in ("semi", "anti"):
            yield self.x.frame.filter((self.finder.counts() > 0) == (self.how == "semi"))
            return
        x = self.x.frame.rename(dict(zip(self.x.frame.columns, self.x_names, strict=True)))
        y = self.y.frame.select(column_named(name).alias(new) for name, new in self.y_names.items())
        grouped = self.finder.y
        if not grouped.is_in_order:
            y = _gathered(y, grouped.rows)
        is_left = self.how == "left"
        given = False
        for piece in self.finder.pieces(pairs, keep_all=is_left):
            if len(piece.x_rows):
                yield self._rows(x, y, piece)
                given = True
        if not given:
            nothing = np.zeros(0, np.int64)
            yield self._rows(x, y, Piece(nothing, nothing))

    def _rows(self, x: pl.DataFrame, y: pl.DataFrame, piece: Piece) -> pl.DataFrame:
        partners = _gathered(y, piece.y_places, may_be_none=self.how == "left")
        rows = _gathered(x, piece.x_rows).hstack(partners)
        if self.relation is not None:
            found = relation_names(piece, self.finder.x_times, self.finder.y, self.relations)
            rows = rows.with_columns(found.alias(self.relation))
        return rows


def _gathered(frame: pl.DataFrame, rows: Array, *, may_be_none: bool = False) -> pl.DataFrame:
    """Rows of a frame by number."""
    numbers = pl.Series(rows)
    if may_be_none:
        numbers = numbers.set(numbers == NONE, None)
    numbers = numbers.cast(pl.get_index_type())
    return frame.select(pl.all().gather(numbers))


def _prepared(
    x: Any, y: Any, relations: RelationsLike, on: Keys, where: str | None,
    nearest: int | None, how: How, relation: str | None, start: Side, end: Side,
    suffixes: tuple[str, str],
) -> _Join:  # fmt: skip
    """A join whose arguments are all checked."""
    _check(nearest, how, relation, suffixes)
    wanted = read_relations(relations)
    given, other = read_frame(x), read_frame(y)
    (x_table, y_table), scale = read_tables([("x", given.frame), ("y", other.frame)], start, end)
    endpoints = {"x": x_table.endpoints, "y": y_table.endpoints}
    distances = read_distances(where, endpoints, scale)
    x_keys, y_keys = key_names(on)
    groups, n_groups = group_keys((x_table, y_table), (x_keys, y_keys))
    if how in ("semi", "anti"):
        nearest = 1  # one partner is enough
    finder = PairFinder(x_table, y_table, groups, n_groups, wanted, distances, nearest)
    left = given.frame.columns
    right = [name for name in other.frame.columns if name not in y_keys]
    x_shared = [name for name in right if name not in x_keys]
    x_names = list(suffixed(left, x_shared, suffixes[0]))
    y_names = dict(zip(right, suffixed(right, left, suffixes[1]), strict=True))
    names = [*x_names, *y_names.values(), *([] if relation is None else [relation])]
    if how in ("inner", "left"):
        checked_names(names, "rename it, or give other suffixes")
    return _Join(given, x_table, y_table, finder, wanted, how, relation, x_names, y_names)


def _check(nearest: int | None, how: str, relation: str | None, suffixes: tuple[str, str]) -> None:
    if how not in _HOWS:
        raise ValueError(f"how is one of {', '.join(_HOWS)}, not {how!r}")
    if nearest is not None and (isinstance(nearest, bool) or not isinstance(nearest, int)):
        raise TypeError(f"nearest is a number of partners, not {type(nearest).__name__}")
    if nearest is not None and nearest < 1:
        raise ValueError(f"nearest is a number of partners from 1 on, not {nearest}")
    if how in ("semi", "anti") and (nearest is not None or relation is not None):
        what = "nearest" if nearest is not None else "relation"
        raise ValueError(f"how={how!r} gives rows of x alone: {what} has no meaning there")
    if isinstance(suffixes, str) or len(suffixes) != 2:
        raise ValueError("suffixes are two: that of x and that of y")


@overload
def join(
    x: AnyFrame, y: Any, relations: RelationsLike, *, on: Keys = ..., where: str | None = ...,
    nearest: int | None = ..., how: How = ..., relation: str | None = ..., start: Side = ...,
    end: Side = ..., suffixes: tuple[str, str] = ...,
) -> AnyFrame: ...  # fmt: skip
@overload
def join(
    x: Events, y: Any, relations: RelationsLike, *, on: Keys = ..., where: str | None = ...,
    nearest: int | None = ..., how: How = ..., relation: str | None = ..., start: Side = ...,
    end: Side = ..., suffixes: tuple[str, str] = ...,
) -> list[dict[str, Any]]: ...  # fmt: skip
def join(
    x: Any, y: Any, relations: RelationsLike, *, on: Keys = None, where: str | None = None,
    nearest: int | None = None, how: How = "inner", relation: str | None = None,
    start: Side = "ts", end: Side = "te", suffixes: tuple[str, str] = ("_x", "_y"),
) -> Any:  # fmt: skip
    """The pairs of intervals of two frames that are in one of the relations, as a frame of x's kind.

    ``relations`` are names with ``;`` between them, of relations or of sets of them
    (``intersects``, ``disjoint``, ``covers``, ``inside``, ``precedes``, ``succeeds``). ``on`` names
    columns that must be equal, ``where`` bounds distances between endpoints. ``nearest=k`` keeps
    for each row of x only the k partners with the least time between. ``how`` is inner, left, semi or
    anti, as in SQL. ``relation`` names a column for the relation that holds.

    Rows come in the order of x; for each, its partners by start, then end, then row. A key that is
    NULL or NaN has no partner.

    >>> import polars as pl, piestream as ps
    >>> meals = pl.DataFrame({"ts": [10, 50], "te": [14, 53], "meal": ["rice", "soup"]})
    >>> highs = pl.DataFrame({"ts": [12, 20, 90], "te": [16, 25, 95], "peak": [9, 11, 8]})
    >>> ps.join(meals, highs, "overlaps; before", where="y.ts - x.te <= 10").select("meal", "peak").rows()
    [('rice', 9), ('rice', 11)]
    >>> ps.join(meals, highs, "before", nearest=1).select("meal", "peak").rows()
    [('rice', 11), ('soup', 8)]
    """
    prepared = _prepared(
        x, y, relations, on, where, nearest, how, relation, start, end, suffixes
    )  # fmt: skip
    rows = pl.concat(prepared.pieces(_PAIRS), rechunk=False)
    return prepared.given.same_kind(rows)


@overload
def join_pieces(
    x: AnyFrame, y: Any, relations: RelationsLike, *, rows: int = ..., on: Keys = ...,
    where: str | None = ..., nearest: int | None = ..., how: How = ...,
    relation: str | None = ..., start: Side = ..., end: Side = ...,
    suffixes: tuple[str, str] = ...,
) -> Iterator[AnyFrame]: ...  # fmt: skip
@overload
def join_pieces(
    x: Events, y: Any, relations: RelationsLike, *, rows: int = ..., on: Keys = ...,
    where: str | None = ..., nearest: int | None = ..., how: How = ...,
    relation: str | None = ..., start: Side = ..., end: Side = ...,
    suffixes: tuple[str, str] = ...,
) -> Iterator[list[dict[str, Any]]]: ...  # fmt: skip
def join_pieces(
    x: Any, y: Any, relations: RelationsLike, *, rows: int = 1 << 20, on: Keys = None,
    where: str | None = None, nearest: int | None = None, how: How = "inner",
    relation: str | None = None, start: Side = "ts", end: Side = "te",
    suffixes: tuple[str, str] = ("_x", "_y"),
) -> Iterator[Any]:  # fmt: skip
    """The rows of `join` in frames of at most ``rows`` rows, one after the other.

    For results that are larger than memory. Arguments are checked at once; there is at least one frame.

    >>> import polars as pl, piestream as ps
    >>> hours = pl.DataFrame({"ts": range(1_000), "te": range(1, 1_001)})
    >>> sum(len(piece) for piece in ps.join_pieces(hours, hours, "before", rows=10_000))
    498501
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ValueError(f"rows is a number from 1 on, not {rows!r}")
    prepared = _prepared(
        x, y, relations, on, where, nearest, how, relation, start, end, suffixes
    )  # fmt: skip
    return (
        prepared.given.same_kind(part)
        for piece in prepared.pieces(rows)
        for part in (piece.iter_slices(rows) if len(piece) else [piece])
    )


@overload
def relate(
    x: AnyFrame, y: Any = ..., relations: RelationsLike = ..., *, on: Keys = ...,
    where: str | None = ..., relation: str = ..., start: Side | None = ...,
    end: Side | None = ..., suffixes: tuple[str, str] = ...,
) -> AnyFrame: ...  # fmt: skip
@overload
def relate(
    x: Events, y: Any = ..., relations: RelationsLike = ..., *, on: Keys = ...,
    where: str | None = ..., relation: str = ..., start: Side | None = ...,
    end: Side | None = ..., suffixes: tuple[str, str] = ...,
) -> list[dict[str, Any]]: ...  # fmt: skip
def relate(
    x: Any, y: Any = None, relations: RelationsLike = ANY, *, on: Keys = None,
    where: str | None = None, relation: str = "relation", start: Side | None = None,
    end: Side | None = None, suffixes: tuple[str, str] = ("_x", "_y"),
) -> Any:  # fmt: skip
    """Which of Allen's relations each pair of intervals is in, as a column of names.

    Of two frames: all pairs of rows with equal keys (``on``), or only those in ``relations`` and
    ``where``, as `join` gives them. Of one frame: the two intervals in each row, whose columns
    ``start`` and ``end`` name; as `join` names them, they are ``ts_x``, ``te_x``, ``ts_y``, ``te_y``.

    >>> import polars as pl, piestream as ps
    >>> shifts = pl.DataFrame({"ts": [0, 8], "te": [8, 16]})
    >>> alarms = pl.DataFrame({"ts": [2, 7], "te": [3, 9]})
    >>> ps.relate(shifts, alarms)["relation"].to_list()
    ['contains', 'overlaps', 'after', 'overlapped-by']
    >>> ps.relate(shifts, alarms, "intersects")["relation"].to_list()
    ['contains', 'overlaps', 'overlapped-by']
    >>> pairs = pl.DataFrame({"ts_x": [1], "te_x": [4], "ts_y": [4], "te_y": [9]})
    >>> ps.relate(pairs)["relation"].to_list()
    ['meets']
    """
    if y is not None:
        start, end = start or "ts", end or "te"
        return join(
            x, y, relations, on=on, where=where, relation=relation, start=start, end=end,
            suffixes=suffixes,
        )  # fmt: skip
    if on is not None or where is not None or relations is not ANY:
        raise TypeError(
            "on, where and relations choose pairs of two frames; of one frame, each row is a pair"
        )
    given = read_frame(x)
    (one, other), _ = read_tables(
        [("x", given.frame), ("y", given.frame)],
        start or ("ts_x", "ts_y"),
        end or ("te_x", "te_y"),
    )
    checked_names([*given.frame.columns, relation], "name it otherwise: relation='how'")
    rows = np.arange(len(given.frame))
    found = relation_names(Piece(rows, rows), np.stack([one.starts, one.ends]), other, ANY)
    return given.same_kind(given.frame.with_columns(found.alias(relation)))
