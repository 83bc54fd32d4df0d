"""A small SVG picture that can be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

__all__ = ["COLOURS", "DARK", "LIGHT", "Canvas"]

#: The colours of bars, which colour-blind readers tell apart; `LIGHT` and `DARK` have them.
COLOURS = ("blue", "orange", "green", "purple")

#: What is drawn in which colour on a light page: bars, texts on them, on the card, and lines.
LIGHT = {
    "blue": "#2f6db3", "orange": "#b35900", "green": "#2c7d3f", "purple": "#8a4f96",
    "on": "#ffffff", "card": "#ffffff", "ink": "#24292f", "faint": "#57606a", "alarm": "#cf222e",
    "grid": "#d0d7de",
}  # fmt: skip
DARK = {
    "blue": "#79b0f2", "orange": "#f2a65a", "green": "#7cc98c", "purple": "#cf9fe0",
    "on": "#1b1f24", "card": "#1b1f24", "ink": "#e6edf3", "faint": "#9da7b3", "alarm": "#ff7b72",
    "grid": "#3d444d",
}  # fmt: skip


def _rules(of: dict[str, str]) -> str:
    """The style sheet of one of the two."""
    filled = "".join(f".{name}{{fill:{value}}}" for name, value in of.items() if name != "grid")
    stroked = {"grid": "grid", "axis": "faint", "mark": "ink", "match": "alarm", "curve": "ink"}
    lines = "".join(f".{name}{{stroke:{of[value]}}}" for name, value in stroked.items())
    return f"{filled}{lines}.bar{{stroke:{of['card']}}}"


# Light and dark follow the reader's system. The card is opaque, so that the text on it can be read
# also where a page is set otherwise than the system.
_STYLE = f"{_rules(LIGHT)}.curve{{fill:none}}\n@media(prefers-color-scheme:dark){{{_rules(DARK)}}}"


def _number(value: float) -> str:
    """A coordinate in a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass
class Canvas:
    """What has been drawn, and on how large a card."""

    width: int
    height: int
    title: str
    shapes: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, colour: str = "ink", *,
        anchor: str = "start", size: int = 13, bold: bool = False,
    ) -> None:  # fmt: skip
        """Words on one line whose base is ``y``."""
        weight = ' font-weight="bold"' if bold else ""
        place = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.shapes.append(
            f'<text class="{colour}" x="{_number(x)}" y="{_number(y)}" font-size="{size}"'
            f"{place}{weight}>{escape(words)}</text>"
        )

    def line(
        self, start: tuple[float, float], end: tuple[float, float], colour: str = "grid", *,
        width: float = 1, dashed: bool = False,
    ) -> None:  # fmt: skip
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self.shapes.append(
            f'<line class="{colour}" x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" '
            f'y2="{_number(y2)}" stroke-width="{_number(width)}"{dashes}/>'
        )

    def bar(
        self, x: tuple[float, float], y: float, colour: str, *, height: float = 22, words: str = "",
        faded: bool = False,
    ) -> None:  # fmt: skip
        """An interval, from one place to the other, with words on it if they fit."""
        start, end = x
        faint = ' fill-opacity="0.4"' if faded else ""
        self.shapes.append(
            f'<rect class="bar {colour}" x="{_number(start)}" y="{_number(y)}" '
            f'width="{_number(max(end - start, 1))}" height="{_number(height)}" rx="3"{faint}/>'
        )
        if words and end - start > 7 * len(words):
            self.text((start + end) / 2, y + height / 2 + 4, words, "on", anchor="middle", size=11)

    def curve(self, points: Iterable[tuple[float, float]]) -> None:
        """A line through points."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self.shapes.append(f'<polyline class="curve" stroke-width="1.5" points="{path}"/>')

    def svg(self) -> str:
        """The picture."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>\n{_STYLE}\n</style>",
                f'<rect class="card" width="{self.width}" height="{self.height}" rx="4"/>',
                *self.shapes,
                "</svg>\n",
            ]
        )
