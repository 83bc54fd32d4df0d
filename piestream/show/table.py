"""Result rows as a table to read."""

from __future__ import annotations

import io
from datetime import datetime, time, timedelta
from typing import Any

import polars as pl

from piestream.adapters.terminal import printable

__all__ = ["PAGE_ROWS", "cell_text", "table_text"]

#: A long table is printed in pages: how wide a column must be is known only once its rows are.
PAGE_ROWS = 1000

#: Wider than any table, for output that is not a terminal.
_UNBOUNDED = 100_000


def table_text(frame: pl.DataFrame, width: int | None = None) -> str:
    """The rows as text; NULL where nothing is known, times without needless zeros.

    ``width`` is that of the terminal; without it no cell is ever cut.

    >>> print(table_text(pl.DataFrame({"id": [7], "te": pl.Series([None], dtype=pl.Int64)})))
     id     te
    ───────────
      7   NULL
    <BLANKLINE>
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=True)
    for name, dtype in frame.schema.items():
        right = dtype.is_numeric() or dtype == pl.Duration
        table.add_column(
            Text(_in_a_cell(name)),
            justify="right" if right else "left",
            no_wrap=width is None,
            overflow="fold",
        )
    for row in frame.iter_rows():
        table.add_row(*(Text(cell_text(value)) for value in row))
    console = Console(
        file=io.StringIO(), width=width or _UNBOUNDED, color_system=None, legacy_windows=False
    )
    with console.capture() as captured:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def cell_text(value: Any) -> str:
    """A value as people write it.

    >>> cell_text(None), cell_text(0.1 + 0.2), cell_text(timedelta(minutes=1, milliseconds=500))
    ('NULL', '0.3', '1m 0.5s')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, timedelta):
        return _duration_text(value)
    if isinstance(value, datetime | time) and value.microsecond:
        zone = value.strftime("%z")
        bare = str(value.replace(tzinfo=None)).rstrip("0")
        return bare + (f"{zone[:3]}:{zone[3:]}" if zone else "")
    return _in_a_cell(str(value))


def _in_a_cell(text: str) -> str:
    """Line ends and tabs would break the table, other control characters the terminal."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _duration_text(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    seconds = f"{rest / 1e6:.6f}".rstrip("0").rstrip(".")
    parts = (
        [f"{days}d"] * bool(days) + [f"{hours}h"] * bool(hours) + [f"{minutes}m"] * bool(minutes)
    )
    if seconds != "0" or not parts:
        parts.append(f"{seconds}s")
    return sign + " ".join(parts)
