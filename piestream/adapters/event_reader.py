"""Single events: from a mapping to the detector, without a frame.

A frame of one row costs a hundred times what the detector does with it. So an event whose values
are those of its columns without any guess is read by compiled Python. All others are made a frame
of, which gives the same rows, and the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Union

import polars as pl

from piestream.adapters.event_values import (
    NEEDS_A_FRAME,
    Conversion,
    conversion_of,
    exact_types,
    integer_range,
    key_of,
    ticks_of,
)
from piestream.engine.past import PastValues
from piestream.engine.stream import MaskOf, Stream
from piestream.expressions.predicate import compile_mask
from piestream.language.inputs import Event
from piestream.plan.binding import Binding
from piestream.plan.calculated import CalculatedColumn
from piestream.plan.columns import CODE, FLOAT, Attribute

#: A single event as `Stream.process_event` takes it: its time in ticks, the key of its partition, the
#: mask of the symbols, or what gives it where earlier events matter, the values that RETURN
#: aggregates, and what orders it in its time, if anything does. It is a plain tuple: to make a named
#: one takes a tenth of the time of a push.
ReadEvent = tuple[int, Any, Union[int, MaskOf], Sequence[Any], Union[int, None]]


class EventReader:
    """Reads the events of one binding for a stream of it."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        schema = binding.schema
        query = binding.query
        self.time = binding.time.name
        self.ticks = ticks_of(binding.time.dtype)
        self.sequence: str | None = None
        self.order_of: Callable[[Any], int | None] | None = None  # what its values are as integers
        if binding.sequence is not None:
            self.sequence = binding.sequence.name
            self.order_of = ticks_of(binding.sequence.dtype)
        # The time is converted besides only where a predicate or an aggregate reads it.
        types = binding.attribute_types
        calculated = {column.name: column for column in binding.calculated}
        read = {
            *binding.predicate_columns,
            *(a.name for a in binding.attributes),
            *(name for column in binding.calculated for name in column.columns),
        }
        columns = [n for n in binding.columns if n != self.time or n in read]
        exact = [(name, exact_types(schema[name])) for name in columns]
        self.checks = tuple((name, types) for name, types in exact if types is not None)
        others = [(name, conversion_of(schema[name])) for name, types in exact if types is None]
        self.conversions = tuple((name, convert) for name, convert in others if convert is not None)
        self.ranges = tuple(
            (name, *integer_range(schema[name])) for name, types in self.checks if int in types
        )
        self.floats = frozenset(name for name in columns if schema[name] == pl.Float64)
        self.reads_the_past = bool(binding.past)
        predicates = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        self.bits = compile_mask(predicates, schema)
        self.masks: dict[int, int] = {}
        self.keys = tuple((name, key_of(schema[name])) for name in query.partition_by)
        self.attributes = tuple(
            (number, _value_of(a, calculated), _word_of(types[a.name], a.form))
            for number, a in enumerate(binding.attributes)
        )
        #: The values of an event that are read of it, flat: so many may be kept at no cost to Python's
        #: search for garbage. (The last comes twice, because one alone would not be in a tuple.)
        self.values = itemgetter(*binding.columns, binding.columns[-1])
        self.texts = tuple(n for n in binding.columns if schema[n] in (pl.String, pl.Binary))
        self.attribute_floats = tuple(a.form == FLOAT for a in binding.attributes)
        self.usable = (
            self.bits is not None
            and all(column.readers is not None for column in binding.past)
            and self.ticks is not None
            and (self.order_of is None) is (self.sequence is None)
            and len(self.checks) + len(self.conversions) == len(columns)
            and all(convert is not None for _, convert in self.keys)
            and all(word is not None for _, _, word in self.attributes)
            and all(column.reader is not None for column in binding.calculated)
        )

    def event_of(self, values: Sequence[Any]) -> Event:
        """An event of these ``values``."""
        return dict(zip(self.binding.columns, values, strict=False))

    def read(self, event: Mapping[str, Any], stream: Stream) -> ReadEvent | None:
        """The event, or None if a frame has to be made of it."""
        try:
            ticks = self.ticks(event[self.time])  # type: ignore[misc]
            if ticks is None:
                return None
            sequence = None
            if self.order_of is not None:
                sequence = self.order_of(event[self.sequence])  # type: ignore[index]
                if sequence is None:
                    return None
            for name, types in self.checks:
                if type(event[name]) not in types:
                    if name not in self.floats or type(event[name]) is not int:
                        return None
                    event = {**event, name: float(event[name])}
            for name, convert in self.conversions:
                value = event[name]
                converted = convert(value)
                if converted is NEEDS_A_FRAME:
                    return None
                if converted is not value:
                    event = {**event, name: converted}
            for name, least, most in self.ranges:
                value = event[name]
                if value is not None and not least <= value <= most:
                    return None
            key = self._key(event) if self.keys else ()
            if key is NEEDS_A_FRAME:
                return None
            if self.reads_the_past:
                mask: int | MaskOf = self._mask_of(event, ticks)
            else:
                bits = self.bits(event, None)  # type: ignore[misc]
                mask = self.masks.get(bits)  # type: ignore[assignment]
                if mask is None:
                    mask = self.masks[bits] = self._mask(bits)
        except (KeyError, OverflowError):
            return None
        values: Sequence[Any] = ()
        if self.attributes:
            values = self._words(event, stream)
            if NEEDS_A_FRAME in values:
                return None
        return ticks, key, mask, values, sequence

    def _mask_of(self, event: Mapping[str, Any], ticks: int) -> MaskOf:
        """What gives the mask of an event from the past of its partition, and notes the event there."""

        def mask_of(past: PastValues, partition: int) -> int:
            found = past.take(partition, ticks, event)
            bits = self.bits(event, found)  # type: ignore[misc]
            mask = self.masks.get(bits)
            if mask is None:
                mask = self.masks[bits] = self._mask(bits)
            return mask

        return mask_of

    def _key(self, event: Mapping[str, Any]) -> Any:
        """The partition's key as the stream knows it."""
        keys = self.keys
        if len(keys) == 1:
            name, convert = keys[0]
            return convert(event[name])  # type: ignore[misc]
        key = tuple(convert(event[name]) for name, convert in keys)  # type: ignore[misc]
        return NEEDS_A_FRAME if NEEDS_A_FRAME in key else key

    def _words(self, event: Mapping[str, Any], stream: Stream) -> Sequence[Any]:
        """The values that RETURN aggregates, in the form in which they are kept."""
        words = []
        for number, read, word in self.attributes:
            value = event[read] if isinstance(read, str) else read(event, None)  # type: ignore[misc]
            if value is not None:
                if word is _code:
                    value = stream.code_of(number, value)
                    value = NEEDS_A_FRAME if value is None else value
                else:
                    value = word(value)  # type: ignore[misc]
            words.append(value)
        return words

    def _mask(self, bits: int) -> int:
        """The mask of the symbols, as a signed word, from the bits of distinct predicates."""
        if len(self.masks) > 1 << 16:
            self.masks.clear()
        mask = 0
        for symbol, bit in enumerate(self.binding.bit_of_symbol):
            mask |= (bits >> bit & 1) << symbol
        return mask - (1 << 64) if mask >> 63 else mask


def _value_of(
    attribute: Attribute, calculated: Mapping[str, CalculatedColumn]
) -> str | Callable[..., Any] | None:
    """The column of an attribute, or the function that gives its value."""
    column = calculated.get(attribute.name)
    return attribute.name if column is None else column.reader


def _code(value: Any) -> Any:
    """Marks the values that are kept as codes; the stream looks the code of each up."""
    return value


def _word_of(dtype: pl.DataType, form: str) -> Conversion | None:
    """How a value of a column becomes what an aggregate keeps; None if that takes a frame."""
    if form == CODE:
        return _code if dtype == pl.String or isinstance(dtype, pl.Decimal) else None
    if form == FLOAT:
        return float
    ticks: Callable[[Any], Any] | None = ticks_of(dtype) if dtype.is_temporal() else int
    if ticks is None:
        return None
    return ticks
