"""ISEQ, section 4.6: how many intervals a window holds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from experiments.comparisons import iseq_sweeps
from experiments.comparisons.iseq_sweeps import Load
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Size

_X = "density"
_LENGTH = 4


def rows(size: Size) -> Iterator[Row]:
    """A row a density and method."""
    densities = size.of((50, 100), (50, 100, 200, 400), (50, 100, 200, 400, 800))
    windows = size.of(2, 20, 40)
    loads = (
        (density, Load(length=_LENGTH, interval=1 / 20, density=density, windows=windows))
        for density in densities
    )
    yield from iseq_sweeps.sweep(size, _X, loads)


EXPERIMENT = Experiment(
    "iseq_density",
    "ISEQ, Fig. 9 and 10: how many intervals a window holds",
    "What do ISEQ's index and its begin punctuations save as windows hold more?",
    "As in Fig. 3 and 4, with 50t-50s and intervals of a twentieth of the window; 50 to 800 intervals "
    f"to a window. The chain has {_LENGTH} types: with the paper's 10, a window of 400 intervals would "
    "have some 28 million matches, and one of 800 a thousand times as many.",
    rows,
    partial(iseq_sweeps.tables, _X),
    partial(
        iseq_sweeps.conclusions,
        _X,
        paper="The share of memory that punctuations save falls with the density; naive's time "
        "grows sharply from 200 to 400 and 800, so that there the share of time rises again.",
    ),
    partial(iseq_sweeps.draw, _X),
    (10.0, 4.6),
    headline=partial(iseq_sweeps.headline, _X),
    methods=iseq_sweeps.METHODS,
)
