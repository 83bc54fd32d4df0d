"""The functions of predicates. Each is one record: to add one, add a record to its module.

Whoever reads, types, translates, documents or tests functions asks this registry.

>>> FUNCTIONS["STARTS_WITH"].signature, FUNCTIONS["STARTS_WITH"].meaning
('STARTS_WITH(s, t)', 'whether s begins with t; NULL if one of them is NULL')
"""

from __future__ import annotations

from piestream.expressions.functions.numbers import NUMBER_FUNCTIONS
from piestream.expressions.functions.record import EXTRACT, Function, call_text, registry
from piestream.expressions.functions.texts import TEXT_FUNCTIONS
from piestream.expressions.functions.times import TIME_FUNCTIONS

__all__ = [
    "BY_NODE",
    "BY_SPELLING",
    "EXTRACT_PARTS",
    "FUNCTIONS",
    "FUNCTION_NAMES",
    "Function",
    "call_text",
    "extract_of",
]

#: Every function by its canonical name; loading fails if one is incomplete.
FUNCTIONS: dict[str, Function] = registry((*NUMBER_FUNCTIONS, *TEXT_FUNCTIONS, *TIME_FUNCTIONS))

#: By the class of sqlglot's tree that stands for a function.
BY_NODE: dict[str, Function] = {f.node: f for f in FUNCTIONS.values() if f.node is not None}

#: By every spelling, in capitals.
BY_SPELLING: dict[str, Function] = {
    spelling: function
    for function in FUNCTIONS.values()
    for spelling in (function.name, *function.aliases)
}

#: What EXTRACT knows.
EXTRACT_PARTS: tuple[str, ...] = tuple(
    name.removeprefix(EXTRACT) for name in FUNCTIONS if name.startswith(EXTRACT)
)

#: The names of the functions that are written as name and brackets.
FUNCTION_NAMES: tuple[str, ...] = tuple(sorted(n for n in FUNCTIONS if not n.startswith(EXTRACT)))


def extract_of(part: str) -> Function:
    """The function that EXTRACT of a part is."""
    return FUNCTIONS[EXTRACT + part]
