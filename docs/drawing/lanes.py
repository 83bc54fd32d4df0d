"""Intervals on lanes above a common axis of time, and below them a column with its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docs.drawing.canvas import Canvas

__all__ = ["Bar", "Curve", "Lane", "lanes_picture"]

LEFT, RIGHT, ROW, CURVE = 170, 30, 34, 150
WIDTH = 800


@dataclass(frozen=True)
class Bar:
    """An interval, with what stands on it if it fits; one that is not meant is faded."""

    start: float
    end: float
    words: str = ""
    faded: bool = False


@dataclass(frozen=True)
class Lane:
    """A name, a colour, and the intervals."""

    name: str
    colour: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Curve:
    """A column over time; the limits that a predicate compares it with are dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    limits: Sequence[float] = ()


def lanes_picture(
    title: str,
    lanes: Sequence[Lane],
    ticks: Sequence[tuple[float, str]],
    *,
    curve: Curve | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """The picture; the time axis reaches from the first tick to the last."""
    top = 40 if marks else 16
    below = top + len(lanes) * ROW
    bottom = below + (CURVE if curve else 0)
    picture = Canvas(WIDTH, bottom + 34, title)
    first, last = ticks[0][0], ticks[-1][0]

    def x(time: float) -> float:
        inside = min(max(time, first), last)
        return LEFT + (inside - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    for time, words in ticks:
        picture.line((x(time), top), (x(time), bottom))
        picture.text(x(time), bottom + 18, words, anchor="middle", size=12)
    for row, lane in enumerate(lanes):
        y = top + row * ROW
        picture.text(12, y + 21, lane.name)
        for bar in lane.bars:
            picture.bar(
                (x(bar.start), x(bar.end)), y + 6, lane.colour, words=bar.words, faded=bar.faded
            )
    if curve:
        _draw_curve(picture, curve, below, bottom, x)
    for time, words in marks:
        picture.line((x(time), top - 12), (x(time), bottom), "match", width=1.5)
        picture.text(x(time), top - 18, words, "alarm", anchor="middle", size=12)
    return picture.svg()


def _draw_curve(
    picture: Canvas, curve: Curve, top: float, bottom: float, x: Callable[[float], float]
) -> None:
    values = [value for _, value in curve.points]
    low, high = min(*values, *curve.limits), max(*values, *curve.limits)

    def y(value: float) -> float:
        return bottom - 8 - (value - low) / (high - low) * (bottom - top - 24)

    picture.text(12, top + 21, curve.name)
    for limit in curve.limits:
        picture.line((LEFT, y(limit)), (WIDTH - RIGHT, y(limit)), "axis", dashed=True)
        picture.text(LEFT - 6, y(limit) + 4, f"{limit:,g}", "faint", anchor="end", size=11)
    picture.curve((x(time), y(value)) for time, value in curve.points)
