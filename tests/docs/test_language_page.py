"""The page of the query language leaves no word of it out."""

from __future__ import annotations

import re

import pytest

from piestream.expressions.durations import UNIT_SPELLINGS
from piestream.expressions.functions import EXTRACT_PARTS, FUNCTIONS
from piestream.expressions.reading import ALLOWED_FUNCTIONS
from piestream.language.aggregates import AGGREGATES, AggregateFunction
from piestream.language.clauses import CLAUSES
from piestream.language.returns import FUNCTIONS as RETURNED
from piestream.relations import ALL_NAMES, SETS
from tests.docs.blocks import ROOT

_PAGE = (ROOT / "docs" / "query-language.md").read_text("utf-8")
_SAID = set(re.findall(r"[\wµμ-]+", _PAGE))

_WORDS = {
    "clauses": {word for clause in CLAUSES for word in clause.split()},
    "units": {unit for unit in UNIT_SPELLINGS if unit != "μs"},  # written with either mu
    "functions of predicates": {*ALLOWED_FUNCTIONS, *EXTRACT_PARTS},
    "functions of RETURN": set(RETURNED),
    "relations": {*ALL_NAMES, *SETS},
}


@pytest.mark.parametrize("aggregate", AGGREGATES.values(), ids=AGGREGATES)
def test_the_table_says_of_an_aggregate_what_its_declaration_says(
    aggregate: AggregateFunction,
) -> None:
    name = aggregate.name
    assert aggregate.summary
    row = f"| `{name}(s.v)` | {aggregate.summary} | `{name.lower()}_s_v` |"
    assert row in _PAGE.splitlines()


@pytest.mark.parametrize("kind", _WORDS)
def test_every_word_is_on_the_page(kind: str) -> None:
    assert _WORDS[kind] - _SAID == set()


def test_the_table_of_functions_is_that_of_the_registry() -> None:
    _, _, table = _PAGE.partition("| function | result | also written |\n|---|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    for row, function in zip(rows, FUNCTIONS.values(), strict=True):
        _, signature, meaning, aliases, _ = (cell.strip() for cell in row.split("|"))
        assert signature == f"`{function.signature}`"
        assert meaning == function.meaning
        assert aliases == " ".join(f"`{alias}`" for alias in function.aliases)
