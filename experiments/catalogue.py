"""The experiments by name, in the order of the report."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import (
    adaption,
    complexity,
    correctness,
    disconnected,
    drivers,
    earliness,
    fig4a,
    fig4b,
    gain,
    memory,
    patterns,
    plans,
    powersets,
    rates,
    rollover,
    spark,
    threads,
)
from experiments.experiment import Experiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: Mapping[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        fig4a,
        fig4b,
        correctness,
        earliness,
        gain,
        rates,
        rollover,
        drivers,
        disconnected,
        patterns,
        plans,
        adaption,
        threads,
        spark,
        memory,
        complexity,
        powersets,
    )
}
