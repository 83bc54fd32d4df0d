"""The matches in rows that were selected of an archive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from piestream.adapters.files import CHUNK_ROWS
from piestream.archives import costs
from piestream.archives.bounded import latest_ends
from piestream.archives.cores import Core, Spans, later
from piestream.archives.pages import Words
from piestream.archives.planning import ArchivePlan
from piestream.archives.selection import CORE, Selection, TooFarError
from piestream.engine.combined import open_stream
from piestream.engine.projection import KEY, SEQUENCE, TIME
from piestream.errors import TieError
from piestream.language.options import RunOptions
from piestream.language.parts import Emit
from piestream.plan.binding import Binding

__all__ = ["found_completed", "found_in_cores"]

#: By how much more is read each time, where the ends of matches have not been found.
_MORE = 4


def found_in(
    plan: ArchivePlan,
    binding: Binding,
    rows: pl.DataFrame,
    options: RunOptions,
    evaluated: bool = False,
) -> pl.DataFrame:
    """The result rows of some projected rows, of which all predicates may be known."""
    if not len(rows):
        return binding.no_results.clear()
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if len(rows) >= CHUNK_ROWS else 1
    stream = open_stream(
        binding, ties=options.ties, lateness=None, whole=True, threads=threads, evaluated=evaluated,
        at_end=options.at_end,
    )  # fmt: skip
    times = plan.pages.times(plan.binding.time.name)
    assert times is not None
    stream.observe_time(int(times[1].max()))  # a silence may end with the archive
    return pl.concat([stream.no_results, *stream.portions(rows), *stream.last_portions()])


def found_in_cores(
    plan: ArchivePlan, selection: Selection, cores: Sequence[Core], options: RunOptions
) -> tuple[int, pl.DataFrame, Words]:
    """How many rows some cores have, the result rows in them, and with EMIT ON BOTH the number of the core of each.

    Each core is a partition apart, but where what is given in one counts in another.
    """
    parts: list[tuple[pl.DataFrame, RunOptions]]
    still_open = replace(options, at_end="open")
    if plan.is_together:
        if plan.closes:
            open_ones, ended = selection.read_together_ends(cores, options.ties)
            parts = [(open_ones, still_open), (ended, options)]
        else:
            parts = [(selection.read_together(cores, options.ties), still_open)]
        found = pl.concat(
            found_in(plan, plan.binding, rows, each, evaluated=True) for rows, each in parts
        )
        number = np.zeros(len(found), np.int64)
        if plan.query.emit is Emit.BOTH:
            number = selection.cores_of_reports(cores, found)
        return sum(len(rows) for rows, _ in parts), found, number
    if plan.closes:
        open_ones, ended = selection.read_ends(cores)
        parts = [(open_ones, still_open), (ended, options)]
    else:
        parts = [(selection.read(cores), still_open)]
    frames, numbers = zip(
        *(_in_cores(plan, rows, cores, each) for rows, each in parts), strict=True
    )
    found = pl.concat(frames).drop(CORE)
    return sum(len(rows) for rows, _ in parts), found, np.concatenate(numbers)


def _in_cores(
    plan: ArchivePlan, rows: pl.DataFrame, cores: Sequence[Core], options: RunOptions
) -> tuple[pl.DataFrame, Words]:
    """The result rows in some cores, each with the number of its core, and these numbers."""
    binding = plan.binding_apart()
    try:
        found = found_in(plan, binding, rows, options)
    except TieError:
        _refuse_ties(plan, rows, options)
        raise
    report = found.columns[1 + len(plan.query.partition_by)]
    reports = found[report].to_physical().cast(pl.Int64).to_numpy()
    number = found[CORE].to_numpy()
    firsts = np.array([core.first for core in cores], np.int64)[number]
    lasts = np.array([core.last for core in cores], np.int64)[number]
    inside = (reports >= firsts) & (reports <= lasts)
    return found.filter(pl.Series(inside)), number[inside]


def _refuse_ties(plan: ArchivePlan, rows: pl.DataFrame, options: RunOptions) -> None:
    """Raise the error for two events of one time as the query has it, that is without the core."""
    names = [KEY + CORE, *(KEY + name for name in plan.query.partition_by), TIME]
    names += [SEQUENCE] if SEQUENCE in rows.columns else []
    is_again = rows.select(~pl.struct(names).is_first_distinct()).to_series()
    if is_again.any():
        core = rows[KEY + CORE][int(is_again.arg_max() or 0)]
        alone = rows.filter(pl.col(KEY + CORE) == core).drop(KEY + CORE)
        found_in(plan, plan.binding, alone, options)


def found_completed(
    plan: ArchivePlan, selection: Selection, options: RunOptions
) -> tuple[int, pl.DataFrame]:
    """How many rows the cores of EMIT ON BOTH have at last, and the result rows.

    Behind cores with matches that wait for their ends more and more is read until all of these are found.
    What is found in a core at last is right, if it is in those before it. TooFarError says that it costs more
    than the selection may.
    """
    if not plan.cores:
        return 0, plan.binding.no_results.clear()
    assert plan.reach is not None
    times = plan.pages.times(plan.binding.time.name)
    assert times is not None
    cores, step = plan.cores, max(1, plan.reach.window)
    end = int(times[1].max()) + plan.closes  # a run of one event is closed a tick behind it
    while True:
        n_rows, found, number = found_in_cores(plan, selection, cores, options)
        inside = number >= 0
        signs = np.where((found["phase"] == "trigger").to_numpy(), 1, -1)
        waiting = np.bincount(number[inside], signs[inside], len(cores)) > 0
        waiting &= np.array([core.last < end for core in cores], np.bool_)
        if not waiting.any():
            return n_rows, found
        selection.besides += costs.AGAIN * n_rows
        lasts = np.array([core.last for core in cores], np.int64)
        ends, more = latest_ends(plan, cores), later(lasts, step)
        lasts = np.where(waiting, np.where(ends > lasts, np.minimum(ends, more), more), lasts)
        cores = _longer(cores, lasts, plan.reach.back)
        step *= _MORE
        wanted = plan.wanted(cores) | selection.is_read
        if plan.pages.rows[wanted].sum() > costs.MOST_TOGETHER:
            raise TooFarError
        selection.check_cost(wanted)


def _longer(cores: Sequence[Core], lasts: Words, back: int) -> list[Core]:
    """Cores that last longer; those that come near each other are one."""
    found = []
    for cells in dict.fromkeys(core.cells for core in cores):
        own = np.array([core.cells == cells for core in cores])
        firsts = np.array([core.first for core in cores], np.int64)[own]
        starts = {core.first: core.start for core in cores if core.cells == cells}
        spans = Spans.of(firsts, lasts[own]).bridged(back)
        found += [
            Core(cells, int(first), int(last), starts[int(first)])
            for first, last in zip(spans.firsts, spans.lasts, strict=True)
        ]
    return found
