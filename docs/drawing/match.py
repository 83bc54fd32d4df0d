"""The aggressive driver of the paper's Figure 1 on a time line: docs/match.svg."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import piestream as ps
from docs.drawing.canvas import Canvas

CASE = Path(__file__).parents[2] / "tests" / "cases" / "figure1_aggressive_driving"

LEFT, TOP, ROW, TICK = 230, 54, 38, 46
SYMBOLS = {
    "a": ("accelerates: accel > 8", "blue"),
    "s": ("speeds: speed > 70", "orange"),
    "c": ("changes lane: |lateral| > 0.5", "green"),
    "d": ("brakes: accel < -9", "purple"),
}


def match_picture() -> str:
    """The picture."""
    query = ps.query((CASE / "query.sql").read_text("utf-8"))
    events = pl.read_csv(CASE / "events.csv")
    reports = query.run(events)["detected_at"].to_list()
    intervals = query.intervals(events, at_end="close")
    first, *_, last = events["ts"].to_list()

    def x(time: float) -> float:
        return LEFT + (time - first) * TICK

    bottom = TOP + len(SYMBOLS) * ROW
    picture = Canvas(
        int(x(last)) + 30,
        bottom + 66,
        "A match on a time line: a overlaps s, s contains c, and both before d",
    )
    for time in range(first, last + 1):
        picture.line((x(time), TOP), (x(time), bottom))
        picture.text(x(time), bottom + 18, str(time), anchor="middle")
    for row, (symbol, (words, colour)) in enumerate(SYMBOLS.items()):
        y = TOP + row * ROW
        picture.text(14, y + 24, symbol, size=15, bold=True)
        picture.text(34, y + 24, words)
        for start, end in intervals.filter(pl.col("symbol") == symbol)["ts", "te"].rows():
            picture.bar((x(start), x(end)), y + 8, colour)
            picture.text(
                (x(start) + x(end)) / 2, y + 23, f"[{start}, {end})", "on", anchor="middle", size=10
            )
    for time, words in [(7, "a overlaps s: known"), *((time, "match") for time in reports)]:
        match = words == "match"
        picture.line(
            (x(time), TOP - 16), (x(time), bottom), "match" if match else "mark",
            width=2, dashed=not match,
        )  # fmt: skip
        picture.text(x(time), TOP - 22, words, "alarm" if match else "ink", anchor="middle")
    picture.text(
        LEFT,
        bottom + 46,
        "At 7 it is certain that a overlaps s, two ticks before s ends. "
        "Each d that begins triggers a match.",
    )
    return picture.svg()
