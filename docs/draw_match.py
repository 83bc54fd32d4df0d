"""Draws docs/match.svg: the aggressive driver of the paper's Figure 1 on a time line.

``python docs/draw_match.py`` writes it; the tests hold that it is up to date.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import piestream as ps

CASE = Path(__file__).parents[1] / "tests" / "cases" / "figure1_aggressive_driving"
PICTURE = Path(__file__).parent / "match.svg"

LEFT, TOP, ROW, TICK = 230, 54, 38, 46
WHAT = {
    "a": "accelerates: accel > 8",
    "s": "speeds: speed > 70",
    "c": "changes lane: |lateral| > 0.5",
    "d": "brakes: accel < -9",
}
FILL = {"a": "#4c78a8", "s": "#f58518", "c": "#54a24b", "d": "#b279a2"}
INK, FAINT, ALARM = "#24292f", "#d0d7de", "#cf222e"


def intervals(query: ps.Query, events: pl.DataFrame, symbol: str) -> list[tuple[int, int]]:
    """All intervals of one symbol: a pattern of it alone, reported at their ends."""
    predicate = query.symbol(symbol).predicate
    alone = ps.query(
        f"FROM cars ORDER BY ts DEFINE {symbol} AS {predicate} PATTERN {symbol} WITHIN 300 "
        "EMIT ON COMPLETION"
    )
    return alone.run(events).select(f"{symbol}_ts", f"{symbol}_te").rows()


def drawn() -> str:
    """The picture."""
    query = ps.query((CASE / "query.sql").read_text("utf-8"))
    events = pl.read_csv(CASE / "events.csv")
    matches = query.run(events)
    first, last = events["ts"].min(), events["ts"].max()
    assert isinstance(first, int)
    assert isinstance(last, int)

    def x(time: float) -> float:
        return LEFT + (time - first) * TICK

    bottom = TOP + len(WHAT) * ROW
    width, height = int(x(last)) + 30, bottom + 66
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="13">',
        "<title>A match on a time line: a overlaps s, s contains c, and both before d</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]

    def text(at: float, y: float, words: str, colour: str = INK, more: str = "") -> None:
        words = words.replace("<", "&lt;").replace(">", "&gt;")
        out.append(f'<text x="{at:g}" y="{y:g}" fill="{colour}" {more}>{words}</text>')

    for time in range(first, last + 1):
        out.append(
            f'<line x1="{x(time):g}" y1="{TOP}" x2="{x(time):g}" y2="{bottom}" stroke="{FAINT}"/>'
        )
        text(x(time), bottom + 18, str(time), INK, 'text-anchor="middle"')
    for row, (symbol, words) in enumerate(WHAT.items()):
        y = TOP + row * ROW
        text(14, y + 24, symbol, FILL[symbol], 'font-weight="bold" font-size="15"')
        text(34, y + 24, words)
        for start, end in intervals(query, events, symbol):
            out.append(
                f'<rect x="{x(start):g}" y="{y + 8}" width="{x(end) - x(start):g}" height="22" '
                f'rx="3" fill="{FILL[symbol]}"/>'
            )
            middle = 'font-size="10" text-anchor="middle"'
            text(x((start + end) / 2), y + 23, f"[{start}, {end})", "#ffffff", middle)
    marks = [(7, "a overlaps s: known"), *((t, "match") for t in matches["detected_at"])]
    for time, words in marks:
        colour = ALARM if words == "match" else INK
        dashes = "" if words == "match" else ' stroke-dasharray="4 3"'
        out.append(
            f'<line x1="{x(time):g}" y1="{TOP - 16}" x2="{x(time):g}" y2="{bottom}" '
            f'stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        text(x(time), TOP - 22, words, colour, 'text-anchor="middle"')
    text(
        LEFT,
        bottom + 46,
        "At 7 it is certain that a overlaps s, two ticks before s ends. "
        "Each d that begins triggers a match.",
    )
    out.append("</svg>")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(), "utf-8")
