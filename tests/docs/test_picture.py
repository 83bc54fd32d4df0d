"""The pictures of the pages are what the engine and the table of relations give."""

from __future__ import annotations

import pytest

from docs.drawing.__main__ import pictures
from docs.drawing.match import match_picture
from docs.drawing.relations import ALT_TEXTS, intervals_of
from piestream.relations import ENDPOINT_ORDER, Relation, inverse, names, relation_of
from tests.docs.blocks import ROOT

_PAGE = (ROOT / "docs" / "query-language.md").read_text("utf-8")


def test_the_pictures_are_up_to_date() -> None:
    stale = [path.name for path, picture in pictures() if path.read_text("utf-8") != picture]
    assert stale == [], "run python -m docs.drawing"


def test_the_picture_of_the_match_has_its_intervals() -> None:
    picture = match_picture()
    assert "[2, 7)" in picture
    assert "[5, 9)" in picture


@pytest.mark.parametrize("relation", Relation, ids=lambda relation: names(relation)[0])
def test_a_relation_has_its_row_and_its_picture(relation: Relation) -> None:
    name = names(relation)[0]
    row = f"| `{name}` | ![{ALT_TEXTS[relation]}](relations/{name}.svg) |"
    (found,) = (line for line in _PAGE.splitlines() if line.startswith(row))
    assert found.endswith(f"| `{names(inverse(relation))[0]}` |")


@pytest.mark.parametrize("relation", ENDPOINT_ORDER, ids=lambda relation: names(relation)[0])
def test_a_relation_is_drawn_by_intervals_in_it(relation: Relation) -> None:
    x, y = intervals_of(relation)
    assert relation_of(*x, *y) == relation
