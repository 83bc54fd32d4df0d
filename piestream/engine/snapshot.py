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
from dataclasses import asdict

import numpy as np
import polars as pl

from piestream.compiled.layout import INT64_MIN, NOWHERE
from piestream.engine.partitions import Partitions
from piestream.engine.stream import Statistics, Stream
from piestream.errors import StateError
from piestream.plan.binding import Binding

_MAGIC = b"PIESTREAM\x00"
VERSION = 1
_CHECKSUM_BYTES = 16
_FINGERPRINT_BYTES = 32
_HEAD_BYTES = len(_MAGIC) + 4 + _FINGERPRINT_BYTES + 1
#: Sections longer than this are packed: to a fifth, at less than it costs to write them.
_PLAIN_BYTES = 1 << 14
_WORD = np.dtype("<i8")


def snapshot(stream: Stream, pushed: str = "polars") -> bytes:
    """Everything that a stream knows, as bytes; and the kind of what was ``pushed`` into it."""
    detector = stream.detector
    assert isinstance(stream.partitions, Partitions)
    stream.detector.forget(INT64_MIN if stream.lateness is None else stream.swept)
    used = stream.partitions.used()
    numbers = np.array(used, np.int64)
    parts = detector.parts[: detector.n_partitions * detector.words].reshape(-1, detector.words)
    facts = {
        "ties": stream.ties,
        "lateness": stream.lateness,
        "on_late": stream.on_late,
        "latest": stream.latest,
        "swept": stream.swept,
        "unswept": stream.unswept,
        "next_silence": detector.next_silence,
        "seen": asdict(stream.seen),
        "bound": _as_text(stream.binding),
        "layout": detector.layout,
        "pushed": pushed,
    }
    sections = [
        json.dumps(facts).encode(),
        _words(parts[numbers]),
        _words(detector.pool[: detector.pool[0]]),
        _words(detector.used_waiting()),
        _columns(stream.partitions.keys(numbers)),
        _columns(stream.buffer),
        _columns(pl.DataFrame({n: v.gather(used) for n, v in _padded(stream).items()})),
        *[_columns(kept.values.to_frame("value")) for kept in stream.dictionaries.values()],
    ]
    body = b"".join(struct.pack("<Q", len(section)) + section for section in sections)
    packed = len(body) > _PLAIN_BYTES
    head = _MAGIC + struct.pack("<I", VERSION) + stream.binding.fingerprint + bytes([packed])
    content = head + (_packed(body) if packed else body)
    return content + _checksum(content)


def restore(binding: Binding, state: bytes) -> Stream:
    """The stream that a snapshot was taken of. Refuses what is not one of this query."""
    sections = _sections(state)
    fingerprint = state[len(_MAGIC) + 4 : _HEAD_BYTES - 1]
    if fingerprint != binding.fingerprint:
        raise StateError(
            "this state belongs to another query, or to columns of other types; "
            "open it with the query that it was taken with"
        )
    facts = json.loads(sections[0])
    stream = Stream(
        binding, ties=facts["ties"], lateness=facts["lateness"], on_late=facts["on_late"]
    )
    if facts["layout"] != stream.detector.layout:
        raise StateError(
            "this state was written by another version of piestream, laid out otherwise"
        )
    stream.latest = facts["latest"]
    stream.swept = facts["swept"]
    stream.unswept = facts.get("unswept", 0)
    stream.seen = Statistics(**facts["seen"])
    detector = stream.detector
    parts = _from_words(sections[1]).reshape(-1, detector.words)
    keys = _from_columns(sections[4])
    if not stream.partitions.schema and len(parts):
        keys = pl.DataFrame({"only": [0]})
    if keys is not None:
        stream.partitions.admit(keys, np.full(len(keys), NOWHERE))
    detector.parts[: parts.size] = parts.ravel()
    detector.pool = _from_words(sections[2])
    detector.waiting = _from_words(sections[3])
    detector.next_silence = facts["next_silence"]
    stream.buffer = _from_columns(sections[5])
    previous = _from_columns(sections[6])
    if previous is not None:
        stream.previous = {column.name: column for column in previous}
    for dictionary, section in zip(stream.dictionaries.values(), sections[7:], strict=True):
        values = _from_columns(section)
        if values is not None:
            dictionary.values = values.to_series()
    return stream


def schema_of(state: bytes) -> tuple[dict[str, pl.DataType], str]:
    """The columns that the stored stream was bound to, and the kind of what was pushed last."""
    facts = json.loads(_sections(state)[0])
    empty = pl.DataFrame.deserialize(io.BytesIO(bytes.fromhex(facts["bound"])))
    return dict(empty.schema), facts.get("pushed", "polars")


def _as_text(binding: Binding) -> str:
    out = io.BytesIO()
    pl.DataFrame(schema={n: binding.schema[n] for n in binding.columns}).serialize(out)
    return out.getvalue().hex()


def _padded(stream: Stream) -> dict[str, pl.Series]:
    missing = {n: stream.detector.n_partitions - len(v) for n, v in stream.previous.items()}
    return {n: v.extend_constant(None, missing[n]) for n, v in stream.previous.items()}


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES).digest()


def _sections(state: bytes) -> list[bytes]:
    if not isinstance(state, bytes | bytearray | memoryview):
        raise StateError(f"a state is bytes, as snapshot() gives them, not {type(state).__name__}")
    state = bytes(state)
    at = len(_MAGIC)
    if state[:at] != _MAGIC:
        raise StateError("these bytes are not a piestream state")
    if len(state) < at + 4:
        raise StateError("this state is damaged: it is cut short")
    (version,) = struct.unpack_from("<I", state, at)
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
    sections, at = [], 0
    while at < len(body):
        (length,) = struct.unpack_from("<Q", body, at)
        sections.append(body[at + 8 : at + 8 + length])
        at += 8 + length
    return sections


def _packed(body: bytes) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"body": np.frombuffer(body, np.uint8)}).write_ipc_stream(out, compression="lz4")
    return out.getvalue()


def _unpacked(body: bytes) -> bytes:
    return pl.read_ipc_stream(io.BytesIO(body))["body"].to_numpy().tobytes()


def _words(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array, _WORD).tobytes()


def _from_words(section: bytes) -> np.ndarray:
    return np.frombuffer(section, _WORD).astype(np.int64)


def _columns(frame: pl.DataFrame | None) -> bytes:
    if frame is None or not frame.width:
        return b""
    out = io.BytesIO()
    frame.write_ipc_stream(out)
    return out.getvalue()


def _from_columns(section: bytes) -> pl.DataFrame | None:
    return pl.read_ipc_stream(io.BytesIO(section)) if section else None
