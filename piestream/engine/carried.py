"""The state of one stream of events between batches, where several streams are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MIN
from piestream.engine.columns import nulls, values_at
from piestream.engine.past import PastValues
from piestream.engine.union import CombinedProjection
from piestream.plan.binding import Binding

__all__ = ["CarriedState"]

Words = NDArray[np.int64]


@dataclass(slots=True)
class CarriedState:
    """The values of the latest event of each partition, by the partition's number."""

    last_times: Words
    bits: NDArray[np.bool_]  # a row for each predicate
    values: dict[int, pl.Series]  # of attributes that are carried on
    past: PastValues  # what predicates read of earlier events
    #: The numbers of their instants, where silences of the stream start at these.
    last_instants: Words | None = None

    @classmethod
    def none(cls, binding: Binding, union: CombinedProjection, number: int) -> CarriedState:
        """That of one stream before its first event."""
        silences = [part.source.silence for part in binding.parts]
        may_be_silent = any(one is not None and one.of == number for one in silences)
        is_numbered = may_be_silent and binding.query.is_sequenced
        part = binding.parts[number]
        carried = {
            n: pl.Series(dtype=union.schema[union.attribute_column(n)])
            for n in part.attributes
            if binding.attributes[n].carried
        }
        return cls(
            np.zeros(0, np.int64),
            np.zeros((len(part.predicates), 0), np.bool_),
            carried,
            PastValues(part.binding.past),
            np.zeros(0, np.int64) if is_numbered else None,
        )

    def make_room(self, count: int) -> None:
        """Room for partitions that are new."""
        missing = count - len(self.last_times)
        if missing > 0:
            missing = max(missing, len(self.last_times))  # each is moved a few times only
            self.last_times = np.concatenate([self.last_times, np.full(missing, INT64_MIN)])
            if self.last_instants is not None:
                more = np.full(missing, INT64_MIN)
                self.last_instants = np.concatenate([self.last_instants, more])
            no_bits = np.zeros((len(self.bits), missing), np.bool_)
            self.bits = np.concatenate([self.bits, no_bits], axis=1)
            for number, values in self.values.items():
                self.values[number] = pl.concat([values, nulls(values.dtype, missing)])
        self.past.make_room(count)

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        """The state of these partitions, as columns."""
        at = np.array(partitions, np.int64)
        columns = [pl.Series("last", self.last_times[at])]
        if self.last_instants is not None:
            columns.append(pl.Series("last instant", self.last_instants[at]))
        columns += [pl.Series(f"bit {n}", bits[at]) for n, bits in enumerate(self.bits)]
        columns += [values_at(v, at).alias(f"value {n}") for n, v in self.values.items()]
        past = self.past.frame(partitions)
        columns += [values.alias(f"past {n}") for n, values in enumerate(past)]
        return pl.DataFrame(columns)

    def of(self, frame: pl.DataFrame) -> CarriedState:
        """The state that a frame of these columns is of."""
        bits = [frame[f"bit {n}"].to_numpy() for n in range(len(self.bits))]
        self.past.restore(frame.select(pl.col("^past [0-9]+$")))
        return CarriedState(
            frame["last"].to_numpy().copy(),
            np.array(bits, np.bool_).reshape(len(bits), len(frame)),
            {n: frame[f"value {n}"] for n in self.values},
            self.past,
            None if self.last_instants is None else frame["last instant"].to_numpy().copy(),
        )

    def forget(self, partitions: Words) -> None:
        """Partitions that hold nothing any more; their numbers may be given again."""
        self.last_times[partitions] = INT64_MIN
        self.bits[:, partitions] = False
