"""ISEQ, section 4.3: which endpoints a query compares."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.comparisons import iseq_sweeps
from experiments.comparisons.iseq_sweeps import Load
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Size

_X = "query"


def rows(size: Size) -> Iterator[Row]:
    """A row a query and method."""
    tenths = size.of((10, 0), (10, 7, 5, 3, 0), range(10, -1, -1))
    length, windows = size.of(3, 10, 10), size.of(2, 40, 400)
    loads = (
        (f"{10 * ends}t-{100 - 10 * ends}s", Load(length=length, tenths=ends, windows=windows))
        for ends in tenths
    )
    yield from iseq_sweeps.sweep(size, _X, loads)


EXPERIMENT = Experiment(
    "iseq_types",
    "ISEQ, Fig. 3 and 4: which endpoints a query compares",
    "What do ISEQ's index and its begin punctuations save, depending on how many of the compared "
    "endpoints are ends?",
    "Intervals of 20 types in order of their ends, 200 to a window of 30 s, on average a tenth of it "
    "long, normally distributed; those of one type overlap. A chain of 10 types, "
    "*e0.x < e1.x < … < e9.x*; `70t-30s`: 70 % of the x are ends, mixed evenly.",
    rows,
    partial(iseq_sweeps.tables, _X),
    partial(
        iseq_sweeps.conclusions,
        _X,
        paper="With 100 % ends the index takes up to 60 % less time than naive, from 20t-80s on 3 to "
        "12 % more; with punctuations all are quicker than naive. Memory is less than 5 % less.",
    ),
    partial(iseq_sweeps.draw, _X),
    (10.0, 4.6),
    headline=partial(iseq_sweeps.headline, _X),
    methods=iseq_sweeps.METHODS,
)
