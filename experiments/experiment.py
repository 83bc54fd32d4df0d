"""What an experiment is, and how its rows become tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.measure import Row, Rows, Size
from experiments.peers import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "STYLES",
    "Experiment",
    "curves",
    "exponent",
    "grown",
    "losses",
    "lost_text",
    "megabytes",
    "milliseconds",
    "one",
    "pivot",
    "select",
    "stopped_text",
    "table",
    "thousands",
]


@dataclass(frozen=True)
class Experiment:
    """One question, its measurements, and what they say.

    ``rows`` measures; the rest reads the rows again from their file: the report can be made anew
    without measuring. ``meaning`` names its numbers from the rows, so that it cannot disagree
    with them.
    """

    name: str
    title: str
    asked: str
    how: str
    rows: Callable[[Size], Iterator[Row]]
    tables: Callable[[Rows], str]
    meaning: Callable[[Rows], str]
    draw: Callable[[Rows, Figure], None]
    #: Width and height of the figure in inches.
    figure_size: tuple[float, float] = (8.0, 4.2)
    #: The cases that stand for the experiment in the table at the top of the report: what picks
    #: their rows, with words for it.
    headline: Callable[[Rows], dict[str, Rows]] | None = None


#: A colour and a mark for each peer, the same in all figures.
STYLES = {
    "piestream": ("#d62728", "o"),
    "piestream-detector": ("#ff7f0e", "s"),
    "tpstream": ("#1f77b4", "^"),
    "tpstream-published": ("#17becf", "v"),
    "piestream-paper": ("#2ca02c", "D"),
    "piestream-paper-spared": ("#98df8a", "d"),
    "iseq": ("#9467bd", "P"),
    "iseq-indexed": ("#c5b0d5", "X"),
    "duckdb": ("#8c564b", "<"),
    "polars": ("#7f7f7f", ">"),
    "java": ("#000000", "*"),
}


def select(rows: Iterable[Row], **where: Any) -> Rows:
    """The rows that have these values.

    >>> select([{"n": 4, "x": 1}, {"n": 8, "x": 2}], n=8)
    [{'n': 8, 'x': 2}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in where.items())]


def one(rows: Iterable[Row], value: str, **where: Any) -> Any:
    """A value of the only row that has these others; None where there is none."""
    found = select(rows, **where)
    return found[0].get(value) if found else None


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """The slope of ``log y`` over ``log x`` by least squares: y grows like x to this power.

    >>> exponent([1, 2, 4], [3, 12, 48])
    2.0
    """
    kept = [(x, y) for x, y in zip(xs, ys, strict=True) if x > 0 and y and y > 0]
    if len(kept) < 2:
        return None
    logs = np.log(np.array(kept, dtype=float))
    return round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 2) + 0.0


def milliseconds(value: float | None) -> str:
    """Seconds as milliseconds, with three digits that mean something.

    >>> milliseconds(0.01234), milliseconds(None)
    ('12.3', '–')
    """
    return "–" if value is None else f"{1000 * value:.3g}" if value < 1 else f"{1000 * value:,.0f}"


def thousands(value: float | None) -> str:
    """A count, or a rate, in short.

    >>> thousands(1_234_567), thousands(999), thousands(None)
    ('1.23 M', '999', '–')
    """
    if value is None:
        return "–"
    for power, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= power * 10 or (power > 1e3 and abs(value) >= power):
            return f"{value / power:.3g}{sign}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table, all columns but the first to the right."""
    body = [[str(cell) for cell in line] for line in lines]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(head), rule, *body])


def pivot(
    rows: Rows,
    index: Sequence[str],
    value: str = "cpu_s",
    *,
    across: str = "peer",
    show: Callable[[Any], str] = milliseconds,
    name: Callable[[str], str] = title,
) -> str:
    """A table with a line for each case and a column for each peer, in the order of the rows."""
    columns = list(dict.fromkeys(row[across] for row in rows))
    cases = list(dict.fromkeys(tuple(row.get(key) for key in index) for row in rows))
    lines = []
    for case in cases:
        here = select(rows, **dict(zip(index, case, strict=True)))
        cells = []
        for column in columns:
            found = select(here, **{across: column})
            measured = found and found[0].get(value) is not None
            cells.append(show(found[0][value]) if measured else _why_not(found))
        shown = [_part(part) for part in case]
        lines.append([*shown, *cells])
    return table([*index, *(name(column) for column in columns)], lines)


def _why_not(found: Rows) -> str:
    """What stands in a cell without a number."""
    row = found[0] if found else {}
    if "over" in row:
        return f"> {row['over']}"
    if "skipped" in row:
        return f"(> {row['skipped']})"
    return "cannot" if "refused" in row else "failed" if "failed" in row else "–"


def megabytes(value: float | None) -> str:
    """Bytes as megabytes.

    >>> megabytes(3 * 2**20), megabytes(None)
    ('3.0', '–')
    """
    if value is None:
        return "–"
    return f"{value / 2**20:.1f}" if value < 100 * 2**20 else f"{value / 2**20:,.0f}"


def grown(rows: Rows, index: Sequence[str]) -> str:
    """The table that stands beside that of times: what the process of a method grew by."""
    return "Megabytes of RAM that a method took beyond its input, matches included:\n\n" + pivot(
        rows, index, "peak_growth_bytes", show=megabytes
    )


def stopped_text(rows: Rows, index: Sequence[str]) -> str:
    """Who was ended, where, and at which cap; empty if nobody was.

    >>> stopped_text([{"n": 18, "peer": "iseq", "over": "3 s"}], ["n"])
    ' Ended: ISEQ with punctuations at n = 18 (> 3 s).'
    """
    told = [
        f"{title(row['peer'])} at {', '.join(f'{key} = {_part(row[key])}' for key in index)} "
        f"(> {row['over']})"
        for row in rows
        if "over" in row
    ]
    told += [f"{title(row['peer'])} failed: {row['failed']}" for row in rows if "failed" in row]
    return f" Ended: {'; '.join(told)}." if told else ""


def _part(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def losses(
    rows: Rows, index: Sequence[str], ours: str = "piestream", value: str = "cpu_s"
) -> list[tuple[tuple[Any, ...], str, float]]:
    """Where a peer is quicker than piestream: the case, the peer, and how many times."""
    lost = []
    for row in rows:
        if row.get("peer") in ("piestream", "piestream-detector"):
            continue
        case = {key: row.get(key) for key in index}
        mine = one(rows, value, peer=ours, **case)
        if mine and row.get(value) and row[value] < mine:
            lost.append((tuple(case.values()), row["peer"], mine / row[value]))
    return lost


def lost_text(rows: Rows, index: Sequence[str], because: str = "") -> str:
    """*Where we lose*, as a sentence made from the rows; ``because`` is added if we do."""
    parts = []
    for ours in ("piestream", "piestream-detector"):
        if not select(rows, peer=ours):
            continue
        lost = losses(rows, index, ours)
        if not lost:
            parts.append(f"In none of these cases is a peer quicker than {title(ours)}.")
            continue
        by_peer: dict[str, list[tuple[tuple[Any, ...], float]]] = {}
        for case, peer, times in lost:
            by_peer.setdefault(peer, []).append((case, times))
        told = "; ".join(
            f"{title(peer)} in {len(cases)} of {len(select(rows, peer=peer))} cases, by "
            f"{max(times for _, times in cases):.1f}× at most (at {', '.join(index)} = "
            f"{', '.join(_part(part) for part in max(cases, key=lambda c: c[1])[0])})"
            for peer, cases in by_peer.items()
        )
        parts.append(f"Quicker than {title(ours)}: {told}.")
    if because and any("Quicker" in part for part in parts):
        parts.append(because)
    return "**Where we lose.** " + " ".join(parts)


def curves(
    axes: Axes,
    rows: Rows,
    x: str,
    y: str = "cpu_s",
    *,
    series: str = "peer",
    log_x: bool = True,
    log_y: bool = True,
    scale: float = 1.0,
    label: Callable[[str], str] = title,
) -> None:
    """A line for each peer."""
    for name in dict.fromkeys(row[series] for row in rows):
        points = [(row[x], row[y] * scale) for row in rows if row[series] == name and row.get(y)]
        if not points:
            continue
        colour, mark = STYLES.get(name, (None, "o"))
        axes.plot(*zip(*sorted(points), strict=True), color=colour, marker=mark,
                  markersize=4, linewidth=1.3, label=label(name))  # fmt: skip
    if log_x:
        axes.set_xscale("log")
    else:
        axes.locator_params(axis="x", integer=True)
    if log_y:
        axes.set_yscale("log")
    axes.grid(True, which="major", linewidth=0.4, alpha=0.5)
