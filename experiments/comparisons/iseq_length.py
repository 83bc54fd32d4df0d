"""ISEQ, section 4.4: how many types a query names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.comparisons import iseq_sweeps
from experiments.comparisons.iseq_sweeps import Load
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Size

_X = "length"


def rows(size: Size) -> Iterator[Row]:
    """A row a length and method."""
    lengths = size.of((2, 3), (2, 6, 10, 14), range(2, 19, 2))
    windows = size.of(2, 40, 400)
    loads = ((length, Load(length=length, windows=windows)) for length in lengths)
    yield from iseq_sweeps.sweep(size, _X, loads)


EXPERIMENT = Experiment(
    "iseq_length",
    "ISEQ, Fig. 5 and 6: how many types a query names",
    "What do ISEQ's index and its begin punctuations save as queries get longer?",
    "As in Fig. 3 and 4, with 50t-50s; chains of 2 to 18 types.",
    rows,
    partial(iseq_sweeps.tables, _X),
    partial(
        iseq_sweeps.conclusions,
        _X,
        paper="What punctuations save of the indexed form's time grows from 45 to 66 % with the "
        "length; the share of memory that is saved stays.",
    ),
    partial(iseq_sweeps.draw, _X),
    (10.0, 4.6),
    headline=partial(iseq_sweeps.headline, _X),
    methods=iseq_sweeps.METHODS,
)
