"""The experiments by group and name, in the order of the report."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from experiments.benchmarks import (
    before,
    cold_start,
    dead_end,
    interval_joins,
    join_orders,
    partitions,
    push,
    push_combined,
    resident_memory,
    shapes,
    snapshots,
    sources,
    threads,
)
from experiments.comparisons import (
    adaption,
    complexity,
    correctness,
    disconnected,
    drivers,
    earliness,
    fig4a,
    fig4b,
    gain,
    iseq_density,
    iseq_intervals,
    iseq_length,
    iseq_types,
    memory,
    patterns,
    plans,
    powersets,
    rates,
    rollover,
)
from experiments.dejavu import distances, orders, prices, recent, regions
from experiments.harness.experiment import Experiment
from experiments.spark import cores, floor

__all__ = ["EXPERIMENTS", "GROUPS"]


def _named(*modules: ModuleType) -> Mapping[str, Experiment]:
    return {module.EXPERIMENT.name: module.EXPERIMENT for module in modules}


#: What the papers measured, with piestream beside its peers; live against archive; the engine by itself; on Spark.
GROUPS: Mapping[str, Mapping[str, Experiment]] = {
    "comparisons": _named(
        fig4a,
        fig4b,
        correctness,
        earliness,
        gain,
        rates,
        rollover,
        drivers,
        disconnected,
        iseq_types,
        iseq_length,
        iseq_intervals,
        iseq_density,
        patterns,
        plans,
        adaption,
        memory,
        complexity,
        powersets,
    ),
    "dejavu": _named(regions, distances, recent, orders, prices),
    "benchmarks": _named(
        sources,
        before,
        shapes,
        dead_end,
        partitions,
        threads,
        push,
        push_combined,
        snapshots,
        resident_memory,
        cold_start,
        join_orders,
        interval_joins,
    ),
    "spark": _named(cores, floor),
}

EXPERIMENTS: Mapping[str, Experiment] = {
    name: experiment for group in GROUPS.values() for name, experiment in group.items()
}
