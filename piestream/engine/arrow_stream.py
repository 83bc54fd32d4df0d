"""Arrow IPC streams of unknown origin: whether what they announce fits into their bytes.

A reader makes room for what the headers announce before it reads anything. So the headers are read
here first, as far as lengths go: https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3
_BUFFER_OR_NODE = 16
#: LZ4 packs no more than so many bytes into one.
_MOST_PACKED = 255
_MOST_FIELDS = 10_000
_INTEGER = 2


class _Table:
    """A table of a flatbuffer: every access is within the buffer, or a struct.error."""

    def __init__(self, buffer: memoryview, at: int) -> None:
        self.buffer = buffer
        self.at = at
        back = self.number("<i", at)
        self.vtable = at - back
        self.size = self.number("<H", self.vtable)

    def number(self, form: str, at: int) -> int:
        """A number in the buffer."""
        if at < 0:
            raise ValueError("an offset leads out of the header")
        found: int = struct.unpack_from(form, self.buffer, at)[0]
        return found

    def place(self, field: int) -> int | None:
        """Where a field lies; None if it has its default."""
        entry = 4 + 2 * field
        offset = self.number("<H", self.vtable + entry) if entry < self.size else 0
        return self.at + offset if offset else None

    def value(self, field: int, form: str) -> int:
        """A number that is a field."""
        place = self.place(field)
        return 0 if place is None else self.number(form, place)

    def target(self, field: int) -> int | None:
        """Where the table or vector lies to which a field refers."""
        place = self.place(field)
        return None if place is None else place + self.number("<I", place)

    def table(self, field: int) -> _Table | None:
        """The table to which a field refers."""
        target = self.target(field)
        return None if target is None else _Table(self.buffer, target)

    def tables(self, field: int) -> Iterator[_Table]:
        """The tables of a vector of them."""
        vector = self.target(field)
        for number in range(0 if vector is None else self.number("<I", vector)):
            assert vector is not None
            place = vector + 4 + 4 * number
            yield _Table(self.buffer, place + self.number("<I", place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """The pairs of 64-bit numbers of a vector of structs."""
        vector = self.target(field)
        for number in range(0 if vector is None else self.number("<I", vector)):
            assert vector is not None
            place = vector + 4 + _BUFFER_OR_NODE * number
            yield self.number("<q", place), self.number("<q", place + 8)


def check_stream(stream: memoryview, *, packed_bytes: bool = False) -> None:
    """Refuse a stream that announces more than it holds; raises ValueError or struct.error.

    ``packed_bytes``: it is one column of bytes, compressed; else nothing may be.
    """
    for kind, header, body in _messages(stream):
        if kind == _SCHEMA:
            _check_schema(header, packed_bytes)
        elif kind in (_DICTIONARY, _RECORDS):
            batch = header.table(1) if kind == _DICTIONARY else header
            if batch is not None:
                _check_batch(batch, body, len(stream), packed_bytes)
        else:
            raise ValueError(f"a message of kind {kind}")


def _messages(stream: memoryview) -> Iterator[tuple[int, _Table, memoryview]]:
    at = 0
    while at < len(stream):
        mark, length = struct.unpack_from("<Ii", stream, at)
        if mark != _CONTINUATION:
            raise ValueError("no message begins where one should")
        if length == 0:
            return
        begin, at = at + 8, at + 8 + length
        if length < 0 or at > len(stream):
            raise ValueError("a header is longer than the stream")
        buffer = stream[begin:at]
        message = _Table(buffer, struct.unpack_from("<I", buffer)[0])
        body_length = message.value(3, "<q")
        if not 0 <= body_length <= len(stream) - at:
            raise ValueError("a batch is longer than the stream")
        header = message.table(2)
        if header is None:
            raise ValueError("a message without a header")
        yield message.value(1, "<B"), header, stream[at : at + body_length]
        at += body_length


def _check_schema(schema: _Table, packed_bytes: bool) -> None:
    """Refuse endless schemas, which can be written shortly: parts of them may be shared."""
    pending = list(schema.tables(1))
    if packed_bytes and [_bits(field) for field in pending] != [8]:
        raise ValueError("no column of bytes")
    seen = len(pending)
    while pending:
        pending += pending.pop().tables(5)
        seen += 1
        if seen + len(pending) > _MOST_FIELDS:
            raise ValueError("too many fields")


def _bits(field: _Table) -> int | None:
    """How long the integers of a field are; None if it has others."""
    kind = field.table(3)
    return kind.value(0, "<i") if kind is not None and field.value(2, "<B") == _INTEGER else None


def _check_batch(batch: _Table, body: memoryview, stream_bytes: int, packed_bytes: bool) -> None:
    if (batch.table(3) is not None) != packed_bytes:
        raise ValueError("compressed, or not, where it should be otherwise")
    most = 8 * stream_bytes  # a bit a value is the least
    if packed_bytes:
        most = _MOST_PACKED * len(body)
    for offset, length in batch.pairs(2):
        if offset < 0 or not 0 <= length <= len(body) - offset:
            raise ValueError("a buffer is longer than its batch")
        if packed_bytes and length:
            (announced,) = struct.unpack_from("<q", body, offset)
            if not -1 <= announced <= _MOST_PACKED * length:
                raise ValueError("a buffer cannot hold as much as it announces")
    rows = batch.value(0, "<q")
    for length, n_null in [(rows, 0), *batch.pairs(1)]:
        if not 0 <= n_null <= length <= most:
            raise ValueError("more values than the stream can hold")
