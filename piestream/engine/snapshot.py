"""State as data: a versioned binary form of a stream, without pickle.

``magic | version | fingerprint of query and types | packing | sections | checksum``. A section is a
length and its bytes: numbers as little-endian 64-bit words, columns as Arrow IPC, the rest as JSON.
All sections together are packed by LZ4 where they are long.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.arrow_stream import check_stream
from piestream.engine.combined import CombinedStream, stream_kind
from piestream.engine.state import DetectorState, StreamState
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.engine.validation import damaged
from piestream.errors import StateError
from piestream.language.options import OnLate, Ties
from piestream.plan.binding import Binding, Part
from piestream.plan.combined import input_columns

Words = NDArray[np.int64]

_MAGIC = b"PIESTREAM\x00"
VERSION = 1
_CHECKSUM_BYTES = 16
_FINGERPRINT_BYTES = 32
_VERSION = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_HEAD_BYTES = len(_MAGIC) + _VERSION.size + _FINGERPRINT_BYTES + 1
#: Sections longer than this are packed: to a fifth, at less than it costs to write them.
_PLAIN_BYTES = 1 << 14
_WORD = np.dtype("<i8")
#: What JSON, Arrow and Polars raise of bytes that they cannot read, and what is missing in them.
_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    RecursionError,
    OSError,
    struct.error,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)


def snapshot(stream: Stream, pushed: str = "polars") -> bytes:
    """Everything that a stream knows, as bytes; and the kind of what was ``pushed`` into it."""
    state = stream.export_state()
    contents = _contents_of(state)
    contents["facts"] |= {"bound": _bound_text(stream), "pushed": pushed}
    if isinstance(stream, CombinedStream):
        contents["facts"]["combined"] = stream.export_counters()
    sections = [write(contents[name]) for name, (write, _) in _SECTIONS.items()]
    sections += [_columns(values.to_frame("value")) for values in state.dictionaries]
    if isinstance(stream, CombinedStream):
        sections += [
            snapshot(part) if isinstance(part, Stream) else _columns(part)
            for part in stream.export_parts()
        ]
    return with_sections(stream.binding.fingerprint, sections)


def restore(binding: Binding, state: bytes, kind: type[CombinedStream] = CombinedStream) -> Stream:
    """The stream that a snapshot was taken of. Refuses what is not one of this query.

    ``kind`` is the class of a stream of several.
    """
    with _damage_refused():
        fingerprint, sections = sections_of(state)
        if fingerprint != binding.fingerprint:
            raise StateError(
                "this state belongs to another query, or to columns of other types; "
                "open it with the query that it was taken with"
            )
        named = zip(_SECTIONS.items(), sections, strict=False)
        contents = {name: read(section) for (name, (_, read)), section in named}
        rest = sections[len(_SECTIONS) :]
        if not binding.parts:
            dictionaries = [_from_columns(section) for section in rest]
            return stream_kind(binding).restore_state(binding, _state_of(contents, dictionaries))
        n_dictionaries = len(rest) - len(binding.parts)
        dictionaries = [_from_columns(section) for section in rest[: max(n_dictionaries, 0)]]
        stream = kind.restore_state(binding, _state_of(contents, dictionaries))
        assert isinstance(stream, CombinedStream)
        counters = {name: _word(n) for name, n in dict(contents["facts"]["combined"]).items()}
        streams = kind.stored_streams(binding, counters)
        stream.restore_parts(
            [
                _from_columns(section)
                if number not in streams
                else restore(_inner(part), bytes(section))
                for number, (part, section) in enumerate(
                    zip(binding.parts, rest[n_dictionaries:], strict=True)
                )
            ],
            counters,
        )
        return stream


def _inner(part: Part) -> Binding:
    assert part.inner is not None
    return part.inner


def schema_of(state: bytes) -> tuple[dict[str, dict[str, pl.DataType]], str]:
    """The columns of each input of the stored stream, and the kind of what was pushed last."""
    with _damage_refused():
        facts = _from_json(sections_of(state)[1][0])
        bound = facts["bound"]
        inputs = dict(bound) if isinstance(bound, dict) else {"": bound}
        return {key: _schema_of(text) for key, text in inputs.items()}, str(facts["pushed"])


def _schema_of(text: str) -> dict[str, pl.DataType]:
    stored = bytes.fromhex(text)
    check_stream(memoryview(stored))
    return dict(pl.DataFrame.deserialize(io.BytesIO(stored)).schema)


@contextmanager
def _damage_refused() -> Iterator[None]:
    """Turn any error of the formats' readers into a StateError: the state is damaged."""
    try:
        yield
    except StateError:
        raise
    except _UNREADABLE as error:
        raise damaged("what it holds cannot be read") from error


# -- what is stored -------------------------------------------------------------------------------


def _contents_of(state: StreamState) -> dict[str, Any]:
    """What is stored in each section but those of the dictionaries."""
    return {
        "facts": {
            "ties": state.ties,
            "lateness": state.lateness,
            "on_late": state.on_late,
            "latest": state.latest,
            "latest_seen": state.seen,
            "swept": state.compacted_at,
            "unswept": state.since_compaction,
            "next_silence": state.detector.next_timeout,
            "seen": asdict(state.counts),
            "layout": state.detector.layout,
        },
        "partitions": state.detector.partitions,
        "pool": state.detector.pool,
        "waiting": state.detector.waiting,
        "keys": state.keys,
        "buffered": state.buffered,
        "past": state.past,
    }


def _state_of(contents: dict[str, Any], dictionaries: list[pl.DataFrame]) -> StreamState:
    """The state whose `_contents_of` these are."""
    facts = contents["facts"]
    return StreamState(
        ties=_one_of(facts["ties"], get_args(Ties)),
        lateness=None if facts["lateness"] is None else _count(facts["lateness"]),
        on_late=_one_of(facts["on_late"], get_args(OnLate)),
        latest=_word(facts["latest"]),
        # an older state has one number for both
        seen=_word(facts.get("latest_seen", facts["latest"])),
        compacted_at=_word(facts["swept"]),
        since_compaction=_count(facts["unswept"]),
        counts=Statistics(**{name: _count(number) for name, number in dict(facts["seen"]).items()}),
        detector=DetectorState(
            partitions=contents["partitions"],
            pool=contents["pool"],
            waiting=contents["waiting"],
            next_timeout=_word(facts["next_silence"]),
            layout=tuple(facts["layout"]),
        ),
        keys=contents["keys"],
        buffered=contents["buffered"] if contents["buffered"].width else None,
        past=contents["past"],
        dictionaries=tuple(values.to_series() for values in dictionaries),
    )


def _one_of(value: Any, known: tuple[Any, ...]) -> Any:
    if value not in known:
        raise damaged(f"{value!r} is none of {', '.join(map(str, known))}")
    return value


def _word(value: Any, lowest: int = INT64_MIN) -> int:
    """A number of 64 bits."""
    if type(value) is not int or not lowest <= value <= INT64_MAX:
        raise damaged("a number is out of its range")
    return value


def _count(value: Any) -> int:
    return _word(value, 0)


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts).encode()


def _from_json(section: memoryview) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(bytes(section))
    return facts


def _words(array: Words) -> bytes:
    return np.ascontiguousarray(array, _WORD).tobytes()


def _from_words(section: memoryview) -> Words:
    return np.frombuffer(section, _WORD).astype(np.int64)


def _columns(frame: pl.DataFrame | None) -> bytes:
    if frame is None or not frame.width:
        return b""
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def _from_columns(section: memoryview) -> pl.DataFrame:
    if not section:
        return pl.DataFrame()
    check_stream(section)
    return pl.read_ipc_stream(io.BytesIO(section))


#: The sections in their order, each with how it is written and read; dictionaries follow.
_SECTIONS: dict[str, tuple[Callable[[Any], bytes], Callable[[memoryview], Any]]] = {
    "facts": (_json, _from_json),
    "partitions": (_words, _from_words),
    "pool": (_words, _from_words),
    "waiting": (_words, _from_words),
    "keys": (_columns, _from_columns),
    "buffered": (_columns, _from_columns),
    "past": (_columns, _from_columns),
}


def _bound_text(stream: Stream) -> str | dict[str, str]:
    """The columns that a stream was bound to, of each input if it may have several."""
    if isinstance(stream, CombinedStream):
        schemas = input_columns(stream.binding)
        return {key: _schema_text(schema) for key, schema in schemas.items()}
    binding = stream.binding
    return _schema_text({name: binding.schema[name] for name in binding.columns})


def _schema_text(schema: dict[str, pl.DataType]) -> str:
    out = io.BytesIO()
    pl.DataFrame(schema=schema).serialize(out)
    return out.getvalue().hex()


# -- the bytes ------------------------------------------------------------------------------------


def with_sections(fingerprint: bytes, sections: Sequence[bytes | memoryview]) -> bytes:
    """A state of these sections, with its head and its checksum."""
    parts = [part for section in sections for part in (_LENGTH.pack(len(section)), section)]
    body = b"".join(parts)
    packed = len(body) > _PLAIN_BYTES
    head = _MAGIC + _VERSION.pack(VERSION) + fingerprint + bytes([packed])
    content = head + (_packed(body) if packed else body)
    return content + _checksum(content)


def sections_of(state: bytes) -> tuple[bytes, list[memoryview]]:
    """The fingerprint and the sections of a state that is whole."""
    if not isinstance(state, bytes | bytearray | memoryview):
        raise StateError(f"a state is bytes, as snapshot() gives them, not {type(state).__name__}")
    whole = memoryview(bytes(state))
    if whole[: len(_MAGIC)] != _MAGIC:
        raise StateError("these bytes are not a piestream state")
    if len(whole) < len(_MAGIC) + _VERSION.size:
        raise damaged("it is cut short")
    (version,) = _VERSION.unpack_from(whole, len(_MAGIC))
    if version != VERSION:
        raise StateError(
            f"this state has version {version}; this piestream reads version {VERSION}"
        )
    if len(whole) < _HEAD_BYTES + _CHECKSUM_BYTES or (
        _checksum(whole[:-_CHECKSUM_BYTES]) != whole[-_CHECKSUM_BYTES:]
    ):
        raise damaged("its checksum does not agree with its content")
    body = whole[_HEAD_BYTES:-_CHECKSUM_BYTES]
    if whole[_HEAD_BYTES - 1]:
        body = _unpacked(body)
    sections, start = [], 0
    while start < len(body):
        (length,) = _LENGTH.unpack_from(body, start)
        start += _LENGTH.size
        if length > len(body) - start:
            raise damaged("a section is longer than the whole")
        sections.append(body[start : start + length])
        start += length
    if len(sections) < len(_SECTIONS):
        raise damaged("sections are missing")
    return bytes(whole[_HEAD_BYTES - 1 - _FINGERPRINT_BYTES : _HEAD_BYTES - 1]), sections


def _checksum(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _packed(body: bytes) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"body": np.frombuffer(body, np.uint8)}).write_ipc_stream(out, compression="lz4")
    return out.getvalue()


def _unpacked(body: memoryview) -> memoryview:
    check_stream(body, packed_bytes=True)
    column = pl.read_ipc_stream(io.BytesIO(body)).to_series()
    if column.dtype != pl.UInt8 or column.null_count():
        raise damaged("what is packed are no bytes")
    return memoryview(column.to_numpy())  # type: ignore[arg-type]
