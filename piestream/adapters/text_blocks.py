"""Bytes of text, from files and from pipes, in blocks of whole lines."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable, Iterator
from typing import BinaryIO

from piestream.errors import FileError

__all__ = ["BLOCK_BYTES", "TextFile", "TextPipe", "count_last_fields", "whole_lines"]

#: Bytes of text parsed at a time.
BLOCK_BYTES = 16 << 20

#: A block ends at a line end if there is one in its last so many bytes; then it is not cut again.
_WINDOW_BYTES = 64 << 10

#: A quoted field may hold line ends; one that is longer than this is taken for a stray quote.
_LONGEST_FIELD = 4 * BLOCK_BYTES

#: The rest of a quoted field, in which a quote is written twice.
_CLOSING_QUOTE = re.compile(b'[^"]*+(?:""[^"]*+)*+"')

#: How long a live stream may be silent before the bytes that were read are worked on.
_PATIENCE_SECONDS = 0.02

#: How often somebody who waits for data may do something else.
_IDLE_SECONDS = 0.1


class TextFile:
    """A text file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size: int | None = os.path.getsize(name)
        self._raw: BinaryIO | None = None

    def blocks(self, names: bool = False) -> Iterator[bytes]:
        """Its bytes, as they are read; a line of ``names`` comes alone where it can."""
        with open(self.name, "rb", buffering=0) as self._raw:
            if os.path.isfile(self.name):
                yield from self._plain(self._raw, names)
            else:
                while block := self._raw.read(BLOCK_BYTES):
                    yield block

    def _plain(self, stream: BinaryIO, names: bool) -> Iterator[bytes]:
        """Large blocks that end with a line where one is near.

        Cutting text elsewhere copies it, which costs a quarter of what parsing does.
        """
        file, at = stream.fileno(), 0
        near = min(_WINDOW_BYTES, BLOCK_BYTES)
        if names:
            line = stream.read(os.pread(file, near, 0).find(b"\n") + 1)
            at = len(line)
            yield line
        while True:
            window = os.pread(file, near, at + BLOCK_BYTES - near)
            after = len(window) - (window.rfind(b"\n") + 1)
            block = stream.read(BLOCK_BYTES - (after if after < len(window) == near else 0))
            if not block:
                return
            yield block
            at += len(block)

    def close(self) -> None:
        """No more is read."""
        if self._raw is not None:
            self._raw.close()

    @property
    def position(self) -> int:
        """Bytes of the file read so far."""
        return 0 if self._raw is None or self._raw.closed else self._raw.tell()


class TextPipe:
    """Standard input; a ``live`` one hands on what it has instead of waiting for large blocks.

    While nothing comes ``idle`` is called several times a second; what it raises ends the wait.
    """

    name = "standard input"
    size: int | None = None

    def __init__(
        self, stream: BinaryIO, live: bool, idle: Callable[[], None] | None = None
    ) -> None:
        self.position = 0
        self._idle = idle or (lambda: None)
        self._stream = stream
        self._live = live

    def blocks(self, names: bool = False) -> Iterator[bytes]:
        """Its bytes, as they are read, wherever a line of ``names`` ends."""
        read = getattr(self._stream, "read1", self._stream.read)
        ended = False
        while not ended:
            pieces: list[bytes] = []
            n_bytes = 0
            while n_bytes < BLOCK_BYTES:
                patience = _PATIENCE_SECONDS if self._live and pieces else None
                if not _can_read(self._stream, patience, self._idle):
                    break
                try:
                    piece: bytes = read(BLOCK_BYTES - n_bytes)
                except OSError as error:
                    raise FileError(f"{self.name} cannot be read: {error.strerror}") from None
                if not piece:
                    ended = True
                    break
                pieces.append(piece)
                n_bytes += len(piece)
            self.position += n_bytes
            if pieces:
                yield b"".join(pieces)

    def close(self) -> None:
        """Standard input is not ours to close."""


def _can_read(stream: BinaryIO, patience: float | None, idle: Callable[[], None]) -> bool:
    """Whether a read gets something at once. Without a limit on patience this waits until it does.

    It waits here because a read would be taken up again after a signal, by Polars.
    """
    try:
        while True:
            idle()
            slice = _IDLE_SECONDS if patience is None else patience
            if select.select([stream], [], [], slice)[0]:
                return True
            if patience is not None:
                return False
    except (OSError, ValueError):  # not something that can be waited for
        return patience is None


def whole_lines(blocks: Iterator[bytes], name: str, delimiter: str | None) -> Iterator[bytes]:
    """The same bytes, cut after line ends only; with a ``delimiter`` not at those inside of quotes.

    Only the last piece may not end with a line. ``name`` is that of the text, for errors.
    """
    held = b""
    for block in blocks:
        held = held + block if held else block
        cut = _last_line_end(held) if delimiter is not None else held.rfind(b"\n") + 1
        if not cut and len(held) > _LONGEST_FIELD:
            cut = held.rfind(b"\n") + 1
            if not cut:
                raise FileError(
                    f"{name} has a line of more than {len(held) >> 20} MB: is it text, of rows?"
                )
        if cut:
            yield held[:cut]  # no copy if that is all
            held = held[cut:]
    if held:
        if delimiter is not None and count_last_fields(held, delimiter) is None:
            raise FileError(f"{name} ends inside of quotes: it seems to have been cut")
        yield held


def count_last_fields(text: bytes, delimiter: str) -> int | None:
    r"""How many fields of CSV the last row has that no line end closes; None inside of quotes.

    >>> count_last_fields(b'1,2\n3,"a ""b"",\n', ","), count_last_fields(b'1,2\n3,"4",', ",")
    (None, 3)
    """
    part = re.compile(b"%s|\n" % re.escape(delimiter.encode()))
    at, fields, open_row = 0, 0, False
    while at < len(text):
        fields += 1
        if text[at : at + 1] == b'"':
            closing = _CLOSING_QUOTE.match(text, at + 1)
            if closing is None:
                return None
            at = closing.end()
        end = part.search(text, at)
        if end is None:
            return fields
        open_row = end[0] != b"\n"
        fields = fields if open_row else 0
        at = end.end()
    return fields + open_row


def _last_line_end(text: bytes) -> int:
    """Where the last line ends that has all its quotes closed; 0 if there is none."""
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    inside = text.count(b'"') % 2 == 1
    end = len(text)
    while (at := text.rfind(b"\n", 0, end)) >= 0:
        inside ^= text.count(b'"', at, end) % 2 == 1
        if not inside:
            return at + 1
        end = at
    return 0
