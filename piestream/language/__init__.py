"""The query language: text and builder calls in, one frozen `Query` out.

>>> import piestream as ps
>>> ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60")
<Query of a: 0 constraints, within 60, 2 returns>
"""

from piestream.expressions.diagnostics import Diagnostic, QueryError
from piestream.expressions.durations import Duration
from piestream.expressions.predicate import PAST_PREFIX, Predicate, compile_mask
from piestream.language.builder import as_query, pattern
from piestream.language.model import Query
from piestream.language.parser import query as parse
from piestream.language.parts import Emit
from piestream.language.symbols import define

__all__ = [
    "PAST_PREFIX",
    "Diagnostic",
    "Duration",
    "Emit",
    "Predicate",
    "Query",
    "QueryError",
    "as_query",
    "compile_mask",
    "define",
    "parse",
    "pattern",
]
