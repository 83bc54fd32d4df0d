"""NO OVERLAP, COOLDOWN and LIMIT of a session beside archives: a match is judged by those that it gave before.

The intervals of the last window are joined anew at each call, all of their matches. Those that are reported
since the last call are judged, in the order of the result, by what the session keeps of its partitions: how
many matches it has given, and when the last. An archive that changes takes back none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Unpack

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.pages import Words
from piestream.engine.combined import JoinStream
from piestream.engine.stream import StreamKeywords
from piestream.language.model import Query
from piestream.language.parser import query as parsed
from piestream.plan.binding import Binding
from piestream.plan.conditions import Judged
from piestream.plan.outputs import ResultRows

__all__ = ["Judge", "LimitedJoin", "judged_query"]

#: Says which matches are given: of each the place of its keys, what judges it, and what tells it apart.
Judge = Callable[[pl.DataFrame, Words, Words, Words], Flags]


def judged_query(query: Query) -> Query:
    """A query all of whose matches are found before they are judged, as those of any WHERE are.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 LIMIT 3")
    >>> str(judged_query(query).where)
    'TRUE'
    """
    if query.where is not None or not query.limits:
        return query
    every = parsed("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE TRUE")
    return replace(query, where=every.where)


class LimitedJoin(JoinStream):
    """A `JoinStream` whose matches are judged elsewhere."""

    def __init__(self, binding: Binding, judge: Judge, **options: Unpack[StreamKeywords]) -> None:
        super().__init__(binding, **options)
        self._judge_of_session = judge

    def _judge(self, judged: Judged, passing: ResultRows) -> Flags:
        rows, identities = judged.rows(passing)
        numbers, places = np.unique(rows[:, 0], return_inverse=True)
        keys = self._partitions.keys(numbers)
        if not keys.width:  # nothing partitions the rows
            keys = pl.DataFrame({"": numbers})
        return self._judge_of_session(keys, places, rows, identities)
