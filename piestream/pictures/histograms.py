"""Counts as bars of SVG, in the colours of the page around them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

__all__ = ["histogram", "histogram_svg"]

_WIDTH, _HEIGHT, _LEFT, _BELOW = 640, 130, 44, 20


def histogram(
    ticks: NDArray[np.int64], first: int, last: int, most: int, nanoseconds: int | None = None
) -> tuple[list[int], list[int]]:
    """The counts in at most so many equal stretches, and where those begin and the last ends.

    Stretches have lengths that people count in; ``nanoseconds`` are those of a tick, if it has any.

    >>> histogram(np.array([0, 1, 9]), 0, 9, 6)
    ([2, 0, 0, 0, 1], [0, 2, 4, 6, 8, 10])
    """
    step = _step(-(-(last - first + 1) // (most - 1)), nanoseconds)
    first = first // step * step
    number = (last - first) // step + 1
    counts = np.bincount((ticks - first) // step, minlength=number)
    return counts.tolist(), [first + step * place for place in range(number + 1)]


#: Lengths of time that people count in, in seconds, from one on.
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


def _step(least: int, nanoseconds: int | None) -> int:
    """The least such length in ticks."""
    if nanoseconds is not None:
        seconds = least * nanoseconds / 1e9
        fitting = [s for s in _SECONDS if s >= seconds and s * 10**9 % nanoseconds == 0]
        if seconds > 0.5 and fitting:
            return fitting[0] * 10**9 // nanoseconds
        day = 86_400 * 10**9
        if seconds > 0.5 and day % nanoseconds == 0:
            return _round(-(-least * nanoseconds // day)) * (day // nanoseconds)
    return _round(least)


def _round(least: int) -> int:
    """The least of 1, 2, 5, 10, 20, … that is no less."""
    power = 1
    while True:
        for leading in (1, 2, 5):
            if leading * power >= least:
                return leading * power
        power *= 10


def histogram_svg(counts: Sequence[int], edges: Sequence[str], what: str) -> str:
    """Bars with their counts to read, by pointing at them and by a screen reader.

    >>> histogram_svg([1, 3], ["0", "5", "10"], "matches").count("<rect")
    2
    """
    highest = max([*counts, 1])
    wide = (_WIDTH - _LEFT) / len(counts)
    bars = []
    for number, count in enumerate(counts):
        tall = (_HEIGHT - 10) * count / highest
        says = escape(f"{edges[number]} to {edges[number + 1]}: {count:,}")
        bars.append(
            f'<rect x="{_LEFT + number * wide:.1f}" y="{_HEIGHT - tall:.1f}" '
            f'width="{max(wide - 1, 0.5):.1f}" height="{tall:.1f}"><title>{says}</title></rect>'
        )
    base = f'<line x1="{_LEFT}" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>'
    marks = (
        f'<text x="{_LEFT - 6}" y="16" text-anchor="end">{highest:,}</text>'
        f'<text x="{_LEFT - 6}" y="{_HEIGHT}" text-anchor="end">0</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT + 15}">{escape(edges[0])}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 15}" text-anchor="end">{escape(edges[-1])}</text>'
    )
    label = escape(f"{what}: {sum(counts):,} from {edges[0]} to {edges[-1]}", quote=True)
    return (
        f'<svg class="histogram" role="img" aria-label="{label}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT + _BELOW}">{"".join(bars)}{base}{marks}</svg>'
    )
