"""Patterns in few words, dense random streams, and every way to put the one into the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from random import Random

import numpy as np
import polars as pl
import pytest

import piestream as ps
from tests.joins.reference import Row, expected

__all__ = ["RELATIONS_OF_MODE", "Pattern", "check", "noise", "rows_of"]

#: Relations of one constraint for each way in which partners lie (joins.records.ScanMode).
RELATIONS_OF_MODE = {
    "ALL": "overlaps; contains; overlapped-by; met-by",
    "ENDS": "meets; overlaps; overlapped-by; during; met-by",
    "ALL_CHECKED": "followed-by; contains; overlapped-by; follows",
    "ENDS_CHECKED": "followed-by; overlaps; overlapped-by; follows",
}


@dataclass(frozen=True)
class Pattern:
    """A query given by its constraints; a symbol is the column of its name if not another."""

    clauses: tuple[str, ...]
    within: int
    emit: str = "TRIGGER"
    bounds: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def symbols(self) -> list[str]:
        """The symbols, which are the words at the ends of clauses."""
        return sorted({clause.split()[end] for clause in self.clauses for end in (0, -1)})

    @cached_property
    def query(self) -> ps.Query:
        """The query; symbols are defined in the order of their names, backwards."""
        defined = ", ".join(
            f"{name} AS {self.columns.get(name, name)} {self.bounds.get(name, '')}"
            for name in reversed(self.symbols)
        )
        return ps.query(
            f"FROM s ORDER BY ts DEFINE {defined} PATTERN {' AND '.join(self.clauses)} "
            f"WITHIN {self.within} EMIT ON {self.emit}"
        )

    def having(self, **changes: object) -> Pattern:
        """The pattern with some of its parts changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def noise(
    seed: int,
    names: Sequence[str],
    rows: int,
    change: Sequence[float] = (0.3,),
    steps: Sequence[int] = (1,),
    together: float = 0.3,
) -> pl.DataFrame:
    """Columns that turn over now and then, often several at one event.

    ``change`` is how often each column does (the last stands for all that follow), ``steps`` the
    distances between events.
    """
    rng = np.random.default_rng(seed)
    often = np.array([change[min(i, len(change) - 1)] for i in range(len(names))])
    eager = rng.random(rows) < together
    flips = rng.random((rows, len(names))) < np.where(eager[:, None], 0.5 * (often > 0), often)
    holds = np.logical_xor.accumulate(flips, axis=0)
    columns = {"ts": np.cumsum(rng.choice(np.array(steps, np.int64), rows))}
    columns |= {name: holds[:, number] for number, name in enumerate(names)}
    return pl.DataFrame(columns)


def rows_of(pattern: Pattern, frame: pl.DataFrame, way: str, rng: Random) -> list[Row]:
    """What a query says of a stream that comes whole, in pieces, or event by event.

    ``restored`` takes the state out and puts it back after some of the pieces.
    """
    if way == "whole":
        return pattern.query.run(frame).rows()
    session = pattern.query.open()
    rows: list[Row] = []
    if way == "events":
        for event in frame.iter_rows(named=True):
            rows += [tuple(row.values()) for row in session.push(event)]
        return rows
    cuts = sorted(rng.sample(range(len(frame)), min(8, len(frame) // 2)))
    for first, end in pairwise([0, *cuts, len(frame)]):
        rows += session.push(frame[first:end]).rows()
        if way == "restored" and rng.random() < 0.7:
            session = pattern.query.open(state=session.snapshot())
    return rows + session.close().rows()


def check(
    pattern: Pattern,
    frame: pl.DataFrame,
    at_least: int = 1,
    ways: Sequence[str] = ("whole", "restored"),
) -> list[Row]:
    """Hold every way against the reference; gives its rows, ``at_least`` so many."""
    wanted = expected(pattern.query, frame)
    assert len(wanted) >= at_least, f"a stream with {len(wanted)} matches shows little"
    for way in ways:
        found = rows_of(pattern, frame, way, Random(len(wanted)))
        if found != wanted:
            place = next(
                (k for k, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b),
                min(len(wanted), len(found)),
            )
            pytest.fail(
                f"{way}: {len(found)} rows, not {len(wanted)}; row {place}\n"
                f"expected {wanted[place : place + 2]}\nfound    {found[place : place + 2]}\n"
                f"{pattern.query}",
                pytrace=False,
            )
    return wanted
