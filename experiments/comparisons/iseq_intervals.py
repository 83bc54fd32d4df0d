"""ISEQ, section 4.5: how long intervals are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.comparisons import iseq_sweeps
from experiments.comparisons.iseq_sweeps import Load
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Size

_X = "interval"


def rows(size: Size) -> Iterator[Row]:
    """A row a mean length and method."""
    parts = size.of((100, 5), (100, 20, 10, 5), (100, 50, 20, 10, 5))
    length, windows = size.of(3, 10, 10), size.of(2, 40, 400)
    loads = (
        (f"W/{fraction}", Load(length=length, interval=1 / fraction, windows=windows))
        for fraction in parts
    )
    yield from iseq_sweeps.sweep(size, _X, loads)


EXPERIMENT = Experiment(
    "iseq_intervals",
    "ISEQ, Fig. 7 and 8: how long intervals are",
    "What do ISEQ's index and its begin punctuations save as intervals get longer?",
    "As in Fig. 3 and 4, with 50t-50s; intervals of a hundredth to a fifth of the window on average.",
    rows,
    partial(iseq_sweeps.tables, _X),
    partial(
        iseq_sweeps.conclusions,
        _X,
        paper="What punctuations save, of time and of memory, grows with the length of intervals.",
    ),
    partial(iseq_sweeps.draw, _X),
    (10.0, 4.6),
    headline=partial(iseq_sweeps.headline, _X),
    methods=iseq_sweeps.METHODS,
)
