"""Methods on cases that grow, each in both forms of the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Size
from experiments.peers import BITS, FRAME, INPUTS, OURS, PEERS, Result, prepared
from experiments.streams import Case

__all__ = ["LOOK", "Sweep", "described", "work_of"]

#: Events between two looks at what piestream holds: as many for a long stream as for a short one, so
#: that what is seen of both is comparable.
LOOK = 1 << 12


class Sweep:
    """Who was over a limit is not run on the cases that are larger, nor on the raw frame."""

    def __init__(self, size: Size, inputs: Sequence[str] = INPUTS) -> None:
        self.size = size
        self.inputs = inputs
        self._over: dict[str, str] = {}

    def compared(self, case: Case, peers: Sequence[str], **about: object) -> Iterator[Row]:
        """A row for each form of the input and each method, with what it is ``about`` in front."""
        for form in self.inputs:
            for peer in peers:
                if PEERS[peer].missing_here() or (peer == "java" and form != FRAME):
                    continue  # the Java program reads text: that is no packed bits
                row: Row = {**about, "peer": peer, "input": form, "events": case.events}
                if peer in self._over:
                    row["skipped"] = self._over[peer]
                else:
                    row |= isolated(prepared, case, peer, form, size=self.size,
                                    once=PEERS[peer].is_optional,
                                    describe=partial(described, case, peer, form, self.size))  # fmt: skip
                if "over" in row:
                    self._over[peer] = row["over"]
                seconds = row.get("cpu_s") or row.get("cold_cpu_s")
                if seconds:
                    row["events_per_s"] = case.events / seconds
                yield row


def described(case: Case, peer: str, form: str, size: Size, result: Result) -> Row:
    """What a run is known by besides its time and memory."""
    row: Row = {"matches": result.count}
    if result.plan:
        row["plan"] = result.plan
    if peer == OURS and form == BITS and size is not Size.TINY:
        matcher = PEERS[OURS].prepare(case.pattern, piece=LOOK, keep=False)
        held = matcher.over(*case.bits)().counters
        row |= {"peak_stored": held["peak_stored"], "peak_bytes": held["peak_bytes"]}
    elif form == BITS:
        row["peak_stored"] = result.counters["peak_stored"]
    if form == BITS:
        row["work"] = work_of(result)
    if result.own_seconds is not None:
        # A program of its own, by its own clock; every run of it is a new process.
        cold, warm = (
            None if seconds is None else seconds + result.deriving_seconds
            for seconds in (result.own_seconds, result.own_warm_seconds)
        )
        row |= {"cold_cpu_s": cold, "cpu_s": warm, "peak_growth_bytes": None}
    return row


def work_of(result: Result) -> int:
    """The steps of a method, as it counts them itself, whatever the clock says."""
    counters = result.counters
    if "visits" in counters:  # piestream: candidates of extension, and bounds propagated
        return counters["steps"] + counters["visits"]
    kinds = ("probes", "subsets", "steps", "pairs", "partial_results")
    return sum(int(counters.get(kind, 0)) for kind in kinds)
