"""The pairs of a constraint: in which relation its two symbols' intervals are, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import polars as pl

from piestream.diagnosis.counting import MOST, Count
from piestream.interval_tables.joining import join_pieces
from piestream.language.parts import Constraint
from piestream.relations import (
    ALL_NAMES,
    ANY,
    PRECISE_FORM,
    Relation,
    intersect,
    names,
    relation_named,
    relations_ordered,
)

__all__ = ["Pairs", "pairs_of", "without_same_rows"]

#: Pairs that are looked at at a time.
_PIECE = 1 << 18


@dataclass(frozen=True)
class Pairs:
    """The pairs of a constraint whose starts lie no further apart than the windows are long.

    ``of`` counts them by the name of the relation that holds. ``undecided`` pairs are of intervals
    that are both open at the end, whose relation may become an allowed one or not.
    """

    constraint: Constraint
    of: dict[str, int]
    undecided: int = 0
    is_more: bool = False
    near: Count | None = None  # with distances: those that keep them too

    @property
    def allowed(self) -> Count:
        """Those in a relation that the constraint allows, and at its distances."""
        return self.near or self._related

    @property
    def at_other_distances(self) -> int:
        """Those in an allowed relation whose distances are not, or not certainly, kept."""
        return 0 if self.near is None else max(0, self._related.number - self.near.number)

    @property
    def _related(self) -> Count:
        allowed = (n for name, n in self.of.items() if self.allows(name))
        return Count(sum(allowed), self.is_more)

    @property
    def total(self) -> Count:
        """All of them."""
        return Count(sum(self.of.values()) + self.undecided, self.is_more)

    def allows(self, name: str) -> bool:
        """Whether the constraint allows the relation of this name."""
        relation = relation_named(name)
        assert relation is not None
        return bool(intersect(relation, self.constraint.relations))

    @property
    def instead(self) -> dict[str, int]:
        """The relations that are not allowed, by how many pairs are in each."""
        return {name: n for name, n in self.of.items() if not self.allows(name)}


def _sorted(found: Counter[str]) -> dict[str, int]:
    """The most frequent first, and of equally many in the order of the relations."""
    return {name: found[name] for name in sorted(ALL_NAMES, key=lambda n: -found[n]) if found[name]}


def pairs_of(
    constraint: Constraint,
    x: pl.DataFrame,
    y: pl.DataFrame,
    apart: tuple[int, int],
    same_runs: bool,
    is_sequenced: bool,
) -> Pairs:
    """The pairs of two tables of runs: ``partition``, ``ts``, ``start``, ``end``, ``open`` and ``valid``.

    ``apart``: the least and the greatest that ``y.ts - x.ts`` may be. ``same_runs``: both symbols have
    the same runs, and never bind one. ``is_sequenced``: endpoints are other numbers than their times.
    """
    precise = constraint.relations & Relation(sum(PRECISE_FORM.values()))
    # what follows immediately is judged among all runs, whether they are valid or not
    x_table, y_table = (_compared(t if precise else t.filter(pl.col("valid"))) for t in (x, y))
    found: Counter[str] = Counter()
    undecided = looked_at = 0
    first, last = apart if not is_sequenced else _instants_apart(x_table, y_table, apart)
    bound = f"y.ts - x.ts BETWEEN {first} AND {last}"
    # an open interval ends after every other
    for pairs in join_pieces(
        x_table, y_table, ANY | precise, rows=_PIECE, on="partition", where=bound, relation="how"
    ):
        looked_at += len(pairs)
        pairs = pairs.filter("valid_x", "valid_y")
        if is_sequenced:
            pairs = pairs.filter((pl.col("time_y") - pl.col("time_x")).is_between(*apart))
        if same_runs:
            pairs = pairs.filter(pl.col("ts_x") != pl.col("ts_y"))
        both_open = pairs.filter("open_x", "open_y")
        for sign in (-1, 0, 1):
            starts = pl.col("ts_x") - pl.col("ts_y")
            number = len(both_open.filter(starts.sign() == sign))
            possible = relations_ordered(ts_ts=sign, ts_te=-1, te_ts=1)
            if number and not possible & ~constraint.relations:
                # whichever it will be, it is allowed: counted as the first of them
                found[names(possible)[0]] += number
            else:
                undecided += number
        settled = pairs.filter(~(pl.col("open_x") & pl.col("open_y")))
        for name, number in settled["how"].value_counts().iter_rows():
            found[name] += number
        if looked_at >= 20 * MOST:
            return Pairs(constraint, _sorted(found), undecided, is_more=True)
    return Pairs(constraint, _sorted(found), undecided)


def _compared(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs with their instants as endpoints, and the time at which they start."""
    return runs.select(
        "partition",
        "open",
        "valid",
        pl.col("ts").alias("time"),
        pl.col("start").alias("ts"),
        pl.col("end").alias("te"),
    )


def _instants_apart(x: pl.DataFrame, y: pl.DataFrame, apart: tuple[int, int]) -> tuple[int, int]:
    """The least and the greatest difference of instants whose times lie so far apart."""
    starts = pl.concat([x, y]).group_by("partition", "time").agg(
        first=pl.col("ts").min(), last=pl.col("ts").max()
    ).sort("time")  # fmt: skip
    most = []
    for length in (-apart[0], apart[1]):
        until = starts.with_columns(pl.col("time") + length)
        later = until.join_asof(starts, on="time", by="partition", check_sortedness=False)
        most.append(int(later.select((pl.col("last_right") - pl.col("first")).max()).item() or 0))
    return -most[0], most[1]


def without_same_rows(pairs: Pairs, ended: int, still_open: int) -> Pairs:
    """The pairs without those of an interval with itself, which no match binds.

    So many rows of intervals are intervals of both symbols, and have ended or are open at the end.
    """
    if pairs.is_more:
        return pairs
    found, undecided = Counter(pairs.of), pairs.undecided
    found[names(relations_ordered(ts_ts=0, ts_te=-1, te_ts=1, te_te=0))[0]] -= ended
    possible = relations_ordered(ts_ts=0, ts_te=-1, te_ts=1)
    if possible & ~pairs.constraint.relations:
        undecided -= still_open
    else:
        found[names(possible)[0]] -= still_open
    return replace(pairs, of=_sorted(found), undecided=undecided)
