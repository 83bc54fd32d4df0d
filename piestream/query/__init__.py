"""The query language: text and builder calls in, one frozen `Query` out.

>>> import piestream as ps
>>> ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60")
<Query of a: 0 constraints, within 60, 2 returns>
"""

import sys
from types import ModuleType

from piestream.query.builder import as_query, define, pattern
from piestream.query.faults import Fault, QueryError
from piestream.query.model import Duration, Emit, Query
from piestream.query.parser import parse
from piestream.query.predicates import PREVIOUS_PREFIX, Predicate, compile_mask

__all__ = [
    "PREVIOUS_PREFIX",
    "Duration",
    "Emit",
    "Fault",
    "Predicate",
    "Query",
    "QueryError",
    "as_query",
    "compile_mask",
    "define",
    "parse",
    "pattern",
]


class _Callable(ModuleType):
    """Python binds ``piestream.query`` to this package; calling it is still `parse`."""

    def __call__(self, text: str) -> Query:
        return parse(text)


sys.modules[__name__].__class__ = _Callable
