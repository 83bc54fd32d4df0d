"""The pictures of the pages are what the engine and the table of relations give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.drawing.__main__ import pictures
from docs.drawing.canvas import COLOURS, DARK, LIGHT
from docs.drawing.match import match_picture
from docs.drawing.relations import ALT_TEXTS, intervals_of
from piestream.relations import ENDPOINT_ORDER, Relation, inverse, names, relation_of
from tests.docs.blocks import PAGES, ROOT

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


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_can_be_read_on_light_and_on_dark_pages(colours: dict[str, str]) -> None:
    """The contrast that the W3C's guidelines ask of text."""
    for bar in COLOURS:
        assert _contrast(colours["on"], colours[bar]) >= 4.5
        assert _contrast(colours["card"], colours[bar]) >= 3
    for text in ("ink", "faint", "alarm"):
        assert _contrast(colours[text], colours["card"]) >= 4.5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_has_an_alternative_text(page: Path) -> None:
    texts = re.findall(r"!\[([^\]]*)\]\(", page.read_text("utf-8"))
    assert all(len(text) > 10 for text in texts)
