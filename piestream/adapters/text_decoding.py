"""The bytes of a text as UTF-8: what is compressed or written otherwise is recognized, or named."""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from itertools import chain

from piestream.adapters.text_faults import fault_in_row
from piestream.errors import FileError

__all__ = ["as_utf8", "check_utf8"]

_GZIP = b"\x1f\x8b"
#: What zlib is told so that it expects the header of gzip.
_WITH_HEADER = 31
#: Bytes that are decompressed at a time.
_PIECE_BYTES = 1 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: How files of other programs begin, what they are, and what makes text of them.
_OTHERS = {
    b"\x28\xb5\x2f\xfd": ("is compressed by zstd", "zstd -dc FILE"),
    b"\xfd7zXZ\x00": ("is compressed by xz", "xz -dc FILE"),
    b"BZh": ("is compressed by bzip2", "bzip2 -dc FILE"),
    b"PK\x03\x04": ("is a zip archive or a spreadsheet", "unzip -p FILE"),
}
_PARQUET = b"PAR1"
_LONGEST_MARK = 6


def as_utf8(name: str, blocks: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """The bytes of a text in UTF-8, without a byte order mark; ``encoding`` is what it is in."""
    first = b""
    for block in blocks:
        first += block
        if len(first) >= _LONGEST_MARK:
            break
    if first.startswith(_GZIP):
        blocks = _gunzipped(name, first, blocks)
        first = next(blocks, b"")
    _refuse_others(name, first, encoding)
    if encoding is not None:
        blocks = _decoded(name, first, blocks, encoding)
        first = next(blocks, b"")
    first = first.removeprefix(codecs.BOM_UTF8)
    if first:
        yield first
    yield from blocks


def check_utf8(name: str, block: bytes, line: int) -> None:
    """Refuse bytes that are no UTF-8; the block begins with this line."""
    if block.isascii():
        return
    try:
        block.decode()
    except UnicodeDecodeError as error:
        at = error.start
        start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at) + 1 or len(block)
        raise FileError(
            fault_in_row(
                name,
                line + block.count(b"\n", 0, at),
                block[start:end],
                f"the byte {block[at]:#04x} is no UTF-8",
                "say what the text is in, for example --encoding latin-1, in Python "
                "run(encoding='latin-1')",
            )
        ) from None


def _refuse_others(name: str, first: bytes, encoding: str | None) -> None:
    for mark, (what, program) in _OTHERS.items():
        if first.startswith(mark):
            raise FileError(
                f"{name} {what}; make text of it first: {program} | piestream run QUERY.SQL - "
                "--format csv"
            )
    if first.startswith(_PARQUET):
        raise FileError(f"{name} holds Parquet and no text; say so with --format parquet")
    if encoding is None and first.startswith(_UTF16):
        raise FileError(
            f"{name} is in UTF-16; say so with --encoding utf-16, in Python run(encoding='utf-16')"
        )


def _decoded(name: str, first: bytes, blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        yield decoder.decode(first).encode()
        for block in blocks:
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FileError(f"{name} is not in {encoding}: {error}") from None


def _gunzipped(name: str, first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip compressed, in one piece or in several that follow one another."""
    unpack = zlib.decompressobj(_WITH_HEADER)
    try:
        for piece in _pieces(first, blocks):
            while piece:
                if unpack.eof:
                    piece = piece.lstrip(b"\0")  # what fills up a block of a tape
                    if not piece:
                        break
                    unpack = zlib.decompressobj(_WITH_HEADER)
                found = unpack.decompress(piece)
                if found:
                    yield found
                piece = unpack.unused_data
    except zlib.error as error:
        raise FileError(f"{name} cannot be decompressed: {error}") from None
    if not unpack.eof:
        raise FileError(f"{name} cannot be decompressed: it ends in the middle")


def _pieces(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in chain([first], blocks):
        for at in range(0, len(block), _PIECE_BYTES):
            yield block[at : at + _PIECE_BYTES]
