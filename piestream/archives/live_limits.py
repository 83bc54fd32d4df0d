"""ONCE PER, NO OVERLAP, COOLDOWN and LIMIT of a session beside archives: a match is judged by those that it gave before.

The intervals of the last window are joined anew at each call, all of their matches. Those that are reported
since the last call are judged, in the order of the result, by what the session keeps of its partitions: how
many matches it has given, when the last, and of which intervals. An archive that changes takes back none of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.pages import Words
from piestream.copies import copied_but
from piestream.engine.combined import JoinStream
from piestream.engine.projection import TIME
from piestream.engine.stream import StreamKeywords
from piestream.engine.union import NUMBER, START
from piestream.language.model import Query
from piestream.language.parser import query as parsed
from piestream.language.parts import Emit
from piestream.plan.binding import Binding
from piestream.plan.conditions import Judged
from piestream.plan.outputs import ResultRows

__all__ = ["IntervalNumbers", "Judge", "LimitedJoin", "judged_query", "with_completions"]

#: Says which matches are given: of each the place of its keys, what judges it, and what tells it apart, in
#: which intervals are numbers of rows of the last argument.
Judge = Callable[[pl.DataFrame, Words, Words, Words, pl.DataFrame], Flags]

_ORDINAL = "ordinal:"


def judged_query(query: Query) -> Query:
    """A query all of whose matches are found before they are judged, as those of any WHERE are.

    Its rows are those of triggers: see `with_completions`.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 LIMIT 3")
    >>> str(judged_query(query).where)
    'TRUE'
    """
    if not query.limits:
        return query
    emit = Emit.TRIGGER if query.emit is Emit.BOTH else query.emit
    if query.where is not None:
        return replace(query, emit=emit)
    every = parsed("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE TRUE")
    return replace(query, where=every.where, emit=emit)


def with_completions(found: pl.DataFrame, binding: Binding) -> pl.DataFrame:
    """The rows of EMIT ON BOTH, of those of triggers whose intervals have all ended.

    Each match is complete as it is reported: the completion rows of an instant stand behind its triggers.
    """
    keys = list(binding.query.partition_by)
    time, phase = list(binding.result_schema)[len(keys) : len(keys) + 2]
    instant = pl.struct(*keys, time).rle_id()
    order, place = "order:", "place:"
    phases = [
        found.select(
            *(
                pl.lit(text).alias(name) if name == phase else name
                for name in binding.result_schema
            ),
            instant.alias(order),
            pl.lit(number).alias(place),
        )
        for number, text in enumerate(("trigger", "completion"))
    ]
    both = pl.concat(phases).sort(order, place, maintain_order=True)
    return both.drop(order, place)


class IntervalNumbers:
    """Tells the intervals of a session apart for ONCE PER, however often they are found.

    Two of which all that the query reads is equal are as many intervals, the first and the second.
    """

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        #: The intervals that a match has had, each with its number.
        self.rows = pl.DataFrame(schema=dict(schema))

    def __deepcopy__(self, memo: dict[int, Any]) -> IntervalNumbers:
        return copied_but(self, memo)

    def numbers_of(self, found: pl.DataFrame) -> Words:
        """The numbers of different intervals, which are rows of the union; new ones get some."""
        content = [name for name in found.columns if name not in (NUMBER, TIME)]
        ordinal = pl.int_range(pl.len()).over(content).alias(_ORDINAL)
        on = [*content, _ORDINAL]
        known = self.rows.with_columns(ordinal).select(*on, NUMBER)
        joined = found.drop(NUMBER).with_columns(ordinal).join(
            known, on=on, how="left", nulls_equal=True, maintain_order="left"
        )  # fmt: skip
        first = int(self.rows[NUMBER].max() or 0) + 1  # type: ignore[arg-type]
        is_new = joined[NUMBER].is_null()
        fresh = first + is_new.cast(pl.Int64).cum_sum() - 1
        numbers: Words = joined.select(pl.coalesce(NUMBER, fresh)).to_series().to_numpy()
        new = found.with_columns(pl.Series(NUMBER, numbers)).filter(is_new)
        self.rows = pl.concat([self.rows, new.select(self.rows.columns)])
        return numbers

    def forget(self, before: int) -> None:
        """Forget intervals that began before a time, which are in no match any more."""
        self.rows = self.rows.filter(pl.col(START) >= before)


class LimitedJoin(JoinStream):
    """A `JoinStream` whose matches are judged elsewhere."""

    def __init__(self, binding: Binding, judge: Judge, **options: Unpack[StreamKeywords]) -> None:
        super().__init__(binding, **options)
        self._judge_of_session = judge
        self._joined = pl.DataFrame()

    def joined(self, rows: pl.DataFrame, passed: int) -> pl.DataFrame:
        """The results of intervals that are all there are; of those of one start the first known comes first."""
        self._joined = rows.sort(TIME, maintain_order=True)
        return super().joined(self._joined, passed)

    def _judge(self, judged: Judged, passing: ResultRows) -> Flags:
        rows, identities = judged.rows(passing)
        numbers, places = np.unique(rows[:, 0], return_inverse=True)
        keys = self._partitions.keys(numbers)
        if not keys.width:  # nothing partitions the rows
            keys = pl.DataFrame({"": numbers})
        return self._judge_of_session(keys, places, rows, identities, self._joined)
