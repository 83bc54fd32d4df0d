"""Figures: one style for all, lines with their time-outs, ticks at what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows
from experiments.harness.tables import select, thousands
from experiments.peers import PEERS, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves", "few_ticks", "legend_below", "save", "ticks_at", "time_curves"]

#: A tick at each measured value, as long as there are not more of them.
_MOST_TICKS = 7
_ENDED = "ended at a limit"
_COLD = "cold run only"


def save(experiment: Experiment, rows: Rows, path: Path) -> Path:
    """Draw the figure of an experiment into a file, whose name says which kind.

    The same rows give the same file, byte for byte.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "figures are drawn with matplotlib: pip install 'piestream[plot]', "
            "or run with --no-figures"
        ) from None
    mpl.use("Agg")
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.hashsalt": "piestream",
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.linewidth": 0.4,
        "grid.alpha": 0.5,
        "legend.frameon": False,
        "lines.markersize": 4,
        "lines.linewidth": 1.3,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=experiment.figure_size, layout="constrained")
        assert experiment.draw is not None
        experiment.draw(rows, figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def curves(
    axes: Axes,
    rows: Iterable[Row],
    x: str,
    y: str,
    *,
    log_x: bool = False,
    log_y: bool = True,
    scale: float = 1.0,
) -> None:
    """A line for each method, of one measured value."""
    rows = list(rows)
    for peer in dict.fromkeys(row["peer"] for row in rows):
        points = sorted((row[x], row[y] * scale) for row in select(rows, peer=peer) if row.get(y))
        if points:
            axes.plot(*zip(*points, strict=True), label=title(peer), **_line(peer))
    _scales(axes, rows, x, log_x, log_y)


def time_curves(axes: Axes, rows: Iterable[Row], x: str, *, log_x: bool = False) -> None:
    """A line for each method: warm CPU milliseconds, time-outs, and hollow marks for cold runs.

    Cold runs are shown where there is no warm one, joined by a dashed line. A method that was ended
    has an arrow at the limit that it reached.
    """
    rows = list(rows)
    axes.set_yscale("log")
    for peer in dict.fromkeys(row["peer"] for row in rows):
        line = _line(peer)
        of_peer = sorted(select(rows, peer=peer), key=lambda row: row[x])
        points = [point for row in of_peer if (point := _time_point(row, x)) is not None]
        over = [row for row in of_peer if "over" in row][:1]
        if not points and not over:
            continue
        warm = [(at, time) for at, time, is_warm in points if is_warm]
        cold = [(at, time) for at, time, is_warm in points if not is_warm]
        axes.plot([], [], label=title(peer), **line)
        if warm:
            axes.plot(*zip(*warm, strict=True), **line | {"linestyle": "" if cold else "-"})
        if cold:
            for (*one, first_warm), (*other, second_warm) in pairwise(points):
                style = "-" if first_warm and second_warm else "--"
                axes.plot(*zip(one, other, strict=True), linestyle=style, color=line["color"])
            axes.plot(
                *zip(*cold, strict=True), **line | {"linestyle": "", "markerfacecolor": "white"}
            )
            _note(axes, _COLD, marker="o", markerfacecolor="white", color="grey", linestyle="--")
        for row in over:
            limit = 1e3 * row.get("over_s", 60.0)
            last = [(at, time) for at, time, _ in points[-1:]]
            axes.plot(*zip(*last, (row[x], limit), strict=True), ":", color=line["color"])
            axes.plot([row[x]], [limit], linestyle="", marker=r"$\uparrow$", markersize=9,
                      color=line["color"])  # fmt: skip
            _note(axes, _ENDED, marker=r"$\uparrow$", markersize=9, color="grey", linestyle=":")
    _scales(axes, rows, x, log_x, log_y=True)


def _time_point(row: Row, x: str) -> tuple[float, float, bool] | None:
    """The point of a row, in milliseconds, and whether it is of warm runs."""
    seconds = row.get("cpu_s") or row.get("cold_cpu_s")
    return (row[x], 1e3 * seconds, bool(row.get("cpu_s"))) if seconds else None


def _line(peer: str) -> dict[str, Any]:
    colour, marker = PEERS[peer].style
    return {"color": colour, "marker": marker}


def _note(axes: Axes, label: str, **style: Any) -> None:
    """An entry of the legend that stands for a kind of mark, once."""
    if label not in axes.get_legend_handles_labels()[1]:
        axes.plot([], [], label=label, **style)


def _scales(axes: Axes, rows: Rows, x: str, log_x: bool, log_y: bool) -> None:
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    if rows:
        ticks_at(axes, sorted({row[x] for row in rows}))


def ticks_at(
    axes: Axes, values: Sequence[float], text: Callable[[float], str] | None = None
) -> None:
    """Ticks on the x axis where something was measured, and nowhere else.

    Of many values every second, third, … is labelled, so that no two labels touch.
    """
    shown = list(values)[:: -(-len(values) // _MOST_TICKS)]
    axes.set_xticks(shown, [(text or _short)(value) for value in shown])
    axes.minorticks_off()
    if axes.get_yscale() == "log":
        few_ticks(axes.yaxis, *axes.get_ylim())


def few_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks of a logarithmic axis: at powers of ten, and between them where there are few of these."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_minor_locator(NullLocator())
    if high < 30 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))


def _short(value: float) -> str:
    """A value on an axis.

    >>> _short(1_000_000), _short(5_000), _short(16), _short(1.47)
    ('1 M', '5 k', '16', '1.5')
    """
    if value >= 1e6:
        return thousands(value).replace(".0 ", " ")
    if value >= 1_000:
        return f"{value / 1e3:g} k" if value % 100 == 0 else f"{value / 1e3:.1f} k"
    return f"{value:.3g}" if value < 1 or value == int(value) else f"{value:.1f}"


def legend_below(figure: Figure, columns: int = 4) -> None:
    """One legend for all axes, under them: no curve can run through it."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    notes = [label for label in (_COLD, _ENDED) if label in handles]
    labels = [label for label in handles if label not in notes] + notes
    figure.legend(
        [handles[label] for label in labels], labels, loc="outside lower center", ncols=columns
    )
