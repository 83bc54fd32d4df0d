"""The query language: text and builder calls in, one frozen `Query` out."""

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
    "compile_mask",
    "parse",
]
