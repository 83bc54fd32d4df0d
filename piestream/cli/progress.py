"""What ``piestream run`` writes on standard error: how far it is, warnings, and a summary."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from piestream.adapters.files import Source
from piestream.adapters.terminal import printable
from piestream.engine.statistics import Statistics
from piestream.errors import ResultWarning

__all__ = ["incomplete_rows", "plain_warnings", "progress_bar", "summary"]


def summary(seen: Statistics, seconds: float) -> str:
    """What a run has seen, in one line.

    >>> summary(Statistics(events=2000, matches=3, partitions=2, live_intervals=1), 0.5)
    '2,000 events, 3 matches in 0.50 s (4,000 events/s); 0 late, 0 ties, 1 live interval'
    """
    rate = round(seen.events / seconds) if seconds else 0
    intervals = "interval" if seen.live_intervals == 1 else "intervals"
    matches = "match" if seen.matches == 1 else "matches"
    return (
        f"{seen.events:,} events, {seen.matches:,} {matches} in {seconds:.2f} s "
        f"({rate:,} events/s); {seen.late:,} late, {seen.ties:,} ties, "
        f"{seen.live_intervals:,} live {intervals}"
    )


def incomplete_rows(count: int) -> str:
    """What is said of matches whose intervals are open when the data ends.

    >>> incomplete_rows(1)
    '1 row is missing, whose intervals are open where the data ends; --at-end close ends them there'
    """
    rows = "row is" if count == 1 else "rows are"
    return (
        f"{count:,} {rows} missing, whose intervals are open where the data ends; "
        "--at-end close ends them there"
    )


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings about a result as a line each on standard error."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ResultWarning)
        warnings.showwarning = show
        yield


@contextmanager
def progress_bar(source: Source | None, quiet: bool) -> Iterator[Any]:
    """A progress bar on a terminal; nothing elsewhere."""
    if quiet or source is None or not sys.stderr.isatty():
        yield lambda seen: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]:,} events, {task.fields[matches]:,} matches"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        name = printable(Path(source.name).name)
        task = bar.add_task(name, total=source.total, events=0, matches=0)

        def tick(seen: Statistics) -> None:
            bar.update(
                task,
                completed=source.done,
                total=source.total,
                events=seen.events,
                matches=seen.matches,
            )

        yield tick
