"""Single events: from a mapping to the detector, without a frame.

A frame of one row costs a hundred times what the detector does with it. So an event whose values
have exactly the expected types is read by compiled Python. All others are made a frame of, which
gives the same rows, and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.predicate import compile_mask
from piestream.plan.binding import Binding
from piestream.plan.columns import CODE, FLOAT

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_SCALE = {"us": 1, "ms": 1_000}

#: The Python types that a column's values must have, exactly, to be read without a frame.
_EXACT: dict[Any, tuple[type, ...]] = {
    pl.Boolean: (bool, type(None)),
    pl.Int64: (int, type(None)),
    pl.Float64: (float, type(None)),
    pl.String: (str, type(None)),
}
_KEYS = (pl.Int64, pl.String, pl.Boolean)

#: The time in ticks, the partition key, and the mask of the symbols.
Read = tuple[int, Any, int]


class EventReader:
    """Reads events of one binding: the time in ticks, the partition key, the symbols' mask."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        schema = binding.schema
        query = binding.query
        self.time = binding.time.name
        self.ticks = _ticks_of(binding.time.dtype)
        self.keys = query.partition_by
        self.checks = tuple(
            (name, _EXACT.get(schema[name], ())) for name in binding.columns if name != self.time
        )
        predicates = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        self.bits = None if binding.previous else compile_mask(predicates, schema)
        self.masks: dict[int, int] = {}
        self.attribute_names = tuple(a.name for a in binding.attributes)
        self.attribute_floats = tuple(a.form == FLOAT for a in binding.attributes)
        self.integers = tuple(name for name, types in self.checks if int in types)
        self.usable = (
            self.bits is not None
            and self.ticks is not None
            and all(types for _, types in self.checks)
            and all(schema[name] in _KEYS for name in self.keys)
            and all(attribute.form != CODE for attribute in binding.attributes)
        )

    def read(self, event: Mapping[str, Any]) -> Read | None:
        """The event, or None if a frame has to be made of it."""
        try:
            for name, types in self.checks:
                if type(event[name]) not in types:
                    return None
            ticks = self.ticks(event[self.time])  # type: ignore[misc]
            if ticks is None:
                return None
            bits = self.bits(event, None)  # type: ignore[misc]
            for name in self.integers:
                value = event[name]
                if value is not None and not INT64_MIN <= value <= INT64_MAX:
                    return None
        except KeyError:
            return None
        keys = self.keys
        if not keys:
            key: Any = ()
        elif len(keys) == 1:
            key = event[keys[0]]
        else:
            key = tuple(event[name] for name in keys)
        mask = self.masks.get(bits)
        if mask is None:
            mask = self.masks[bits] = self._mask(bits)
        return ticks, key, mask

    def attributes(self, event: Mapping[str, Any]) -> list[Any]:
        """The values of the event that RETURN aggregates."""
        return [event[name] for name in self.attribute_names]

    def _mask(self, bits: int) -> int:
        """The mask of the symbols, as a signed word, from the bits of distinct predicates."""
        if len(self.masks) > 1 << 16:
            self.masks.clear()
        mask = 0
        for symbol, bit in enumerate(self.binding.bit_of_symbol):
            mask |= (bits >> bit & 1) << symbol
        return mask - (1 << 64) if mask >> 63 else mask


def _ticks_of(dtype: pl.DataType) -> Callable[[Any], int | None] | None:
    """How a time becomes ticks; the function gives None for a time that a frame has to be made of."""
    if dtype == pl.Int64:

        def of_integer(time: Any) -> int | None:
            return time if type(time) is int and INT64_MIN < time < INT64_MAX else None

        return of_integer
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is None and dtype.time_unit in _SCALE:
        unit = _SCALE[dtype.time_unit] * _MICROSECOND

        def of_datetime(time: Any) -> int | None:
            if type(time) is not datetime or time.tzinfo is not None:
                return None
            ticks, rest = divmod(time - _EPOCH, unit)
            return None if rest else ticks

        return of_datetime
    return None
