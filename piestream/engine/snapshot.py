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
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.state import DetectorState, StreamState
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.errors import StateError
from piestream.plan.binding import Binding

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


def snapshot(stream: Stream, pushed: str = "polars") -> bytes:
    """Everything that a stream knows, as bytes; and the kind of what was ``pushed`` into it."""
    state = stream.export_state()
    contents = _contents_of(state)
    contents["facts"] |= {"bound": _schema_text(stream.binding), "pushed": pushed}
    sections = [write(contents[name]) for name, (write, _) in _SECTIONS.items()]
    sections += [_columns(values.to_frame("value")) for values in state.dictionaries]
    body = b"".join(_LENGTH.pack(len(section)) + section for section in sections)
    packed = len(body) > _PLAIN_BYTES
    head = _MAGIC + _VERSION.pack(VERSION) + stream.binding.fingerprint + bytes([packed])
    content = head + (_packed(body) if packed else body)
    return content + _checksum(content)


def restore(binding: Binding, state: bytes) -> Stream:
    """The stream that a snapshot was taken of. Refuses what is not one of this query."""
    sections = _sections(state)
    fingerprint = state[len(_MAGIC) + _VERSION.size : _HEAD_BYTES - 1]
    if fingerprint != binding.fingerprint:
        raise StateError(
            "this state belongs to another query, or to columns of other types; "
            "open it with the query that it was taken with"
        )
    named = zip(_SECTIONS.items(), sections, strict=False)
    contents = {name: read(section) for (name, (_, read)), section in named}
    dictionaries = [_from_columns(section) for section in sections[len(_SECTIONS) :]]
    return Stream.restore_state(binding, _state_of(contents, dictionaries))


def schema_of(state: bytes) -> tuple[dict[str, pl.DataType], str]:
    """The columns that the stored stream was bound to, and the kind of what was pushed last."""
    facts = _from_json(_sections(state)[0])
    empty = pl.DataFrame.deserialize(io.BytesIO(bytes.fromhex(facts["bound"])))
    return dict(empty.schema), facts["pushed"]


# -- what is stored -------------------------------------------------------------------------------


def _contents_of(state: StreamState) -> dict[str, Any]:
    """What is stored in each section but those of the dictionaries."""
    return {
        "facts": {
            "ties": state.ties,
            "lateness": state.lateness,
            "on_late": state.on_late,
            "latest": state.latest,
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
        "previous": state.previous,
    }


def _state_of(contents: dict[str, Any], dictionaries: list[pl.DataFrame]) -> StreamState:
    """The state whose `_contents_of` these are."""
    facts = contents["facts"]
    return StreamState(
        ties=facts["ties"],
        lateness=facts["lateness"],
        on_late=facts["on_late"],
        latest=facts["latest"],
        compacted_at=facts["swept"],
        since_compaction=facts["unswept"],
        counts=Statistics(**facts["seen"]),
        detector=DetectorState(
            partitions=contents["partitions"],
            pool=contents["pool"],
            waiting=contents["waiting"],
            next_timeout=facts["next_silence"],
            layout=tuple(facts["layout"]),
        ),
        keys=contents["keys"],
        buffered=contents["buffered"] if contents["buffered"].width else None,
        previous=contents["previous"],
        dictionaries=tuple(values.to_series() for values in dictionaries),
    )


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts).encode()


def _from_json(section: bytes) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(section)
    return facts


def _words(array: Words) -> bytes:
    return np.ascontiguousarray(array, _WORD).tobytes()


def _from_words(section: bytes) -> Words:
    return np.frombuffer(section, _WORD).astype(np.int64)


def _columns(frame: pl.DataFrame | None) -> bytes:
    if frame is None or not frame.width:
        return b""
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def _from_columns(section: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(section)) if section else pl.DataFrame()


#: The sections in their order, each with how it is written and read; dictionaries follow.
_SECTIONS: dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    "facts": (_json, _from_json),
    "partitions": (_words, _from_words),
    "pool": (_words, _from_words),
    "waiting": (_words, _from_words),
    "keys": (_columns, _from_columns),
    "buffered": (_columns, _from_columns),
    "previous": (_columns, _from_columns),
}


def _schema_text(binding: Binding) -> str:
    out = io.BytesIO()
    pl.DataFrame(schema={n: binding.schema[n] for n in binding.columns}).serialize(out)
    return out.getvalue().hex()


# -- the bytes ------------------------------------------------------------------------------------


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _sections(state: bytes) -> list[bytes]:
    if not isinstance(state, bytes | bytearray | memoryview):
        raise StateError(f"a state is bytes, as snapshot() gives them, not {type(state).__name__}")
    state = bytes(state)
    head = len(_MAGIC)
    if state[:head] != _MAGIC:
        raise StateError("these bytes are not a piestream state")
    if len(state) < head + _VERSION.size:
        raise StateError("this state is damaged: it is cut short")
    (version,) = _VERSION.unpack_from(state, head)
    if version != VERSION:
        raise StateError(
            f"this state has version {version}; this piestream reads version {VERSION}"
        )
    if len(state) < _HEAD_BYTES + _CHECKSUM_BYTES or (
        _checksum(state[:-_CHECKSUM_BYTES]) != state[-_CHECKSUM_BYTES:]
    ):
        raise StateError("this state is damaged: its checksum does not agree with its content")
    body = state[_HEAD_BYTES:-_CHECKSUM_BYTES]
    if state[_HEAD_BYTES - 1]:
        body = _unpacked(body)
    sections, start = [], 0
    while start < len(body):
        (length,) = _LENGTH.unpack_from(body, start)
        start += _LENGTH.size
        sections.append(body[start : start + length])
        start += length
    return sections


def _packed(body: bytes) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"body": np.frombuffer(body, np.uint8)}).write_ipc_stream(out, compression="lz4")
    return out.getvalue()


def _unpacked(body: bytes) -> bytes:
    return pl.read_ipc_stream(io.BytesIO(body))["body"].to_numpy().tobytes()
