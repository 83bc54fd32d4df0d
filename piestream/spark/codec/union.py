"""Rows of several inputs as rows of one frame: wire columns that the inputs share, by their types.

The raw columns that a query reads travel, and predicates are evaluated by the workers: a row may be
read at several places of a query, by queries in brackets too, and each place evaluates its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
from pyspark.sql import types as spark

from piestream.compiled.constants import INT64_MIN
from piestream.plan.binding import Binding
from piestream.plan.columns import TimeColumn
from piestream.spark.codec.columns import ColumnCodec, WireLayout, mask_sql, mask_words
from piestream.spark.codec.rows import RowCodec, WireTime, key_sql

__all__ = ["INPUT", "InputColumns", "UnionCodec", "union_codec"]

#: The wire column that says of which input a row is.
INPUT = "input"

#: What a wire column holds in rows of inputs that do not use it. Pandas would make doubles of
#: integers with NULLs.
_UNUSED = {"bigint": "0L", "double": "0D"}


@dataclass
class _SharedLayout(WireLayout):
    """Hands out wire columns for one input after the other: a column of each type is used again."""

    most_bits: int = 0
    used: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """The columns of the next input."""
        self.bits = 0
        self.used = set()

    def _wire(self, type: str) -> int:
        free = (n for n, known in enumerate(self.types) if known == type and n not in self.used)
        wire = next(free, None)
        if wire is None:
            wire = super()._wire(type)
        self.used.add(wire)
        return wire

    def _bit(self) -> int:
        bit = super()._bit()
        self.most_bits = max(self.most_bits, self.bits)
        return bit


@dataclass(frozen=True)
class InputRows(RowCodec):
    """Rows of one input, encoded in the JVM, decoded to the columns that the query reads of it."""

    key: str
    time: TimeColumn | None  # the column of the event's time, which is that of the row

    def decode(self, wire: pl.DataFrame, ticks: pl.Series) -> pl.DataFrame:
        """The columns of these rows, whose times are ``ticks``."""
        masks = [wire[f"m{word}"].to_numpy() for word in range(self.words)]
        columns = [codec.decode(wire, masks).alias(name) for name, codec in self.columns]
        if self.time is not None:
            columns.append(self.time.as_times(ticks).alias(self.time.name))
        return pl.DataFrame(columns)


@dataclass(frozen=True)
class UnionCodec:
    """Rows of all inputs. The columns of the keys come first in each, and are the same in all."""

    inputs: tuple[InputRows, ...]
    keys: int
    time: WireTime

    @property
    def key_columns(self) -> list[str]:
        """The wire columns of the keys, which are equal where the keys are."""
        keys = self.inputs[0].columns[: self.keys]
        return [f"v{wire}" for _, codec in keys for wire in codec.wires]

    def decode(self, wires: Sequence[pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], int]:
        """The rows of each input that has some, by its name, and the largest time of all."""
        found: dict[str, list[pl.DataFrame]] = {}
        latest = INT64_MIN
        for wire in wires:
            ticks = self.time.ticks(wire["time"])
            latest = max(latest, int(ticks.max()))  # type: ignore[arg-type]
            for number, rows in enumerate(self.inputs):
                mine = wire[INPUT] == number
                if mine.any():
                    decoded = rows.decode(wire.filter(mine), ticks.filter(mine))
                    found.setdefault(rows.key, []).append(decoded)
        return {key: pl.concat(parts) for key, parts in found.items()}, latest


@dataclass(frozen=True)
class InputColumns:
    """The columns of one input that a query reads, with their types here and in Spark."""

    key: str
    schema: Mapping[str, pl.DataType]
    types: Mapping[str, spark.DataType]
    event_time: str | None  # of events; rows of intervals have two columns of time


def union_codec(
    binding: Binding, inputs: Sequence[InputColumns], time: WireTime
) -> tuple[UnionCodec, list[list[str]]]:
    """The codec of the rows of all inputs, and for each the Spark SQL that encodes them.

    Their times are not in it, neither are columns of events' times.
    """
    keys = binding.query.partition_by
    layout = _SharedLayout()
    columns: list[list[tuple[str, ColumnCodec]]] = []
    written: list[tuple[dict[int, str], dict[int, str]]] = []
    for one in inputs:
        layout.begin()
        values: dict[int, str] = {}
        bits: dict[int, str] = {}
        codecs = []
        for name in dict.fromkeys((*keys, *one.schema)):
            if name == one.event_time and name not in keys:
                continue
            # NaN is a missing value in every engine, so it may stand for NULL here.
            codec = layout.codec(one.schema[name], null_as_nan=True)
            sql = key_sql(name, one.types[name]) if name in keys else None
            codec.encode_sql((name,), one.types[name], values, bits, sql)
            codecs.append((name, codec))
        columns.append(codecs)
        written.append((values, bits))
    types, words = tuple(layout.types), mask_words(layout.most_bits)
    rows = []
    encoded = []
    for number, (one, codecs, (values, bits)) in enumerate(
        zip(inputs, columns, written, strict=True)
    ):
        is_apart = one.event_time is not None and one.event_time not in keys
        event_time = TimeColumn(
            str(one.event_time), binding.time.dtype, binding.time.nanoseconds_per_tick
        )
        rows.append(
            InputRows(
                tuple(codecs), types, layout.most_bits, one.key, event_time if is_apart else None
            )
        )
        written_as = [f"{number} AS {INPUT}"]
        written_as += [f"{values.get(n, _unused(type))} AS v{n}" for n, type in enumerate(types)]
        encoded.append(written_as + mask_sql(bits, words))
    return UnionCodec(tuple(rows), len(keys), time), encoded


def _unused(type: str) -> str:
    return _UNUSED.get(type, f"CAST(NULL AS {type})")
