"""What an experiment is: a question, measurements, and how the rows become tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment"]


@dataclass(frozen=True)
class Experiment:
    """One question, and its measurements.

    ``rows`` measures; the rest reads the rows again from their file, so that the report can be made
    anew without measuring. ``conclusions`` takes every number, and every word that depends on one,
    from the rows: it cannot disagree with them.
    """

    name: str
    title: str
    question: str
    #: What is measured and how; nothing that a measurement could contradict.
    setup: str
    rows: Callable[[Size], Iterator[Row]]
    tables: Callable[[Rows], str]
    conclusions: Callable[[Rows], str]
    draw: Callable[[Rows, Figure], None] | None = None
    #: Width and height of the figure in inches.
    figure_size: tuple[float, float] = (8.0, 4.2)
    #: The cases that stand for the experiment in the summary of the report: their rows by name.
    headline: Callable[[Rows], dict[str, Rows]] | None = None
    #: The rooms of the package that its measurements run in: a change of them makes results stale.
    rooms: tuple[str, ...] = QUERIES
    #: The methods that are measured: results without one of them go behind results with all.
    methods: tuple[str, ...] = ()
