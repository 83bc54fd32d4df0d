"""The values of earlier events that predicates read, at rows of many partitions or at one event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.copies import Copied
from piestream.engine.memories import Memory, OrderedRows, memory_of
from piestream.engine.projection import PREDICATE, RAW, Projection
from piestream.plan.past import PastColumn

__all__ = ["PastValues", "with_past"]

Words = NDArray[np.int64]


class PastValues(Copied):
    """The memories of one stream's predicates, in the order in which they are evaluated."""

    def __init__(self, columns: Sequence[PastColumn]) -> None:
        self._memories: list[Memory] = [memory_of(column) for column in columns]
        self._readers = [(m, m.column.node.key, m.column.readers) for m in self._memories]

    def __bool__(self) -> bool:
        return bool(self._memories)

    def make_room(self, n_partitions: int) -> None:
        """Room for so many partitions."""
        for memory in self._memories:
            memory.make_room(n_partitions)

    def evaluate(self, frame: pl.DataFrame, rows: OrderedRows) -> pl.DataFrame:
        """The columns of ordered rows, with one more for each thing that is read of the past."""
        for memory in self._memories:
            column = memory.column
            named = [one.alias(f"operand {n}") for n, one in enumerate(column.operands)]
            operands = frame.lazy().with_columns(named).collect().get_columns()[-len(named) :]
            frame = frame.with_columns(memory.evaluate(operands, rows).alias(column.name))
        return frame

    def take(self, partition: int, time: int, event: Mapping[str, Any]) -> dict[str, Any]:
        """Add one event of a partition; gives the values that predicates read there, by their keys."""
        found: dict[str, Any] = {}
        for memory, key, readers in self._readers:
            assert readers is not None
            operands = [read(event, found) for read in readers]
            found[key] = memory.take(partition, time, operands)
        return found

    def forget(self, partitions: Words) -> None:
        """Partitions whose numbers may be given to others."""
        if len(partitions):
            for memory in self._memories:
                memory.forget(partitions)

    def needed(self, partitions: Words, last_times: Words, now: int) -> NDArray[np.bool_]:
        """Of which partitions something is kept that an event after ``now`` may read."""
        found = np.zeros(len(partitions), np.bool_)
        for memory in self._memories:
            found |= memory.is_needed(partitions, last_times, now)
        return found

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        """All that is kept of some partitions, a row each."""
        frames = [memory.frame(partitions) for memory in self._memories]
        return pl.concat(frames, how="horizontal") if frames else pl.DataFrame()

    def restore(self, frame: pl.DataFrame) -> None:
        """Take over what `frame` gave, for the partitions from 0 on; ValueError if it cannot be."""
        at = 0
        for memory in self._memories:
            width = memory.frame(()).width
            memory.restore(frame[:, at : at + width])
            at += width

    def of_types(self, columns: Sequence[PastColumn], n_partitions: int) -> PastValues:
        """The same memories, for columns whose types have become known."""
        changed = PastValues(columns)
        kept = self.frame(range(n_partitions))
        for memory in changed._memories:
            schema = memory.frame(()).schema
            if all(name in kept.columns for name in schema):
                memory.restore(pl.DataFrame([_cast(kept[n], t) for n, t in schema.items()]))
        changed.make_room(
            n_partitions
        )  # PREV of a column without a type had no memory, and no value
        return changed

    @property
    def size(self) -> int:
        """How many bytes are kept."""
        return sum(memory.size for memory in self._memories)


def _cast(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column as another type; one without any value could otherwise not be cast to some."""
    if column.dtype == dtype:
        return column
    if isinstance(dtype, pl.List) and not column.list.explode().drop_nulls().len():
        counts = column.list.len().to_list()
        return pl.Series(column.name, [[None] * count for count in counts], dtype=dtype)
    return column.cast(dtype)


def with_past(
    rows: pl.DataFrame, projection: Projection, ordered: OrderedRows, past: PastValues
) -> pl.DataFrame:
    """Rows in order, with the predicates that read earlier events of their partition."""
    binding = projection.binding
    columns = pl.DataFrame([rows[RAW + name].alias(name) for name in binding.predicate_columns])
    if not columns.width:  # COUNT(*) reads none
        columns = pl.DataFrame({"": np.zeros(len(rows), np.uint8)})
    evaluated = past.evaluate(columns, ordered).select(
        binding.predicates[i].alias(f"{PREDICATE}{i}") for i in projection.ordered_predicates
    )
    return rows.hstack(evaluated)
