"""Checks of the stored words of a row pattern, before a loop follows them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from piestream.engine.state import StreamState
from piestream.engine.validation import damaged
from piestream.plan.binding import Binding
from piestream.row_patterns.loops.partition_table import THREAD_FIELDS, RowPartitionTable
from piestream.row_patterns.loops.records import Partition, PoolHeader, Program

__all__ = ["check_row_words"]


def check_row_words(binding: Binding, state: StreamState, dictionaries: Mapping[int, int]) -> None:
    """Refuse words that no detector of this binding can have.

    ``dictionaries`` says of attributes that are kept as codes how many codes there are.
    """
    program = Program.over(binding.compiled.program)
    table = RowPartitionTable(binding.compiled.program)
    rows = state.detector.partitions.reshape(-1, table.width)
    pool = state.detector.pool
    if pool.size < PoolHeader.size or PoolHeader.over(pool).used != pool.size:
        raise damaged("its rows do not fill its pool")
    columns = {name: Partition.column_of(rows, name) for name in Partition.fields}
    base, capacity, count, head = (columns[n] for n in ("base", "capacity", "count", "head"))
    n_threads = columns["n_threads"]
    first = Partition.offset("threads")
    threads = rows[:, first : first + program.n_states]
    width = program.row_words
    sound = (
        (columns["used"] == 1).all()
        and (head >= 0).all()
        and (head <= count).all()
        and (count <= capacity).all()
        and (capacity <= pool.size).all()
        and ((base >= PoolHeader.size) | (capacity == 0)).all()
        and (base >= 0).all()
        and (base <= pool.size).all()
        and (base + capacity * width <= pool.size).all()
        and ((n_threads >= 0) & (n_threads <= program.n_states)).all()
        and ((threads >= 0) & (threads < program.n_states)).all()
        and (columns["dropped"] >= 0).all()
        and (columns["matches"] >= 0).all()
        and all((columns[name] == 0).all() for name in THREAD_FIELDS)
        and (columns["given_until"] >= 0).all()
        and (columns["given_until"] <= columns["dropped"] + count).all()
    )
    if not sound:
        raise damaged("a partition says something that no partition can say")
    for first, n_rows, last_time in zip(base, count, columns["last_time"], strict=True):
        kept = pool[first : first + n_rows * width].reshape(-1, width)
        times = kept[:, 0]
        is_unordered = np.diff(times) < (0 if program.is_sequenced else 1)
        if is_unordered.any() or (n_rows and times[-1] != last_time):
            raise damaged("the rows of a partition are not in order of time")
        if ((kept[:, 1] < 0) | (kept[:, 1] >> len(binding.query.symbols) != 0)).any():
            raise damaged("a row says that conditions hold that there are not")
        for attribute, size in dictionaries.items():
            codes = kept[:, program.values_at + attribute]
            if ((codes < 0) | (codes >= max(size, 1))).any():
                raise damaged("a row has a value that is in no dictionary")
