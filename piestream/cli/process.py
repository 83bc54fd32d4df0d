"""The process around a command: its standard streams and the signals that ask it to end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "DeferredSignals",
    "EndedBySignalError",
    "end_at_once_on_signals",
    "flush_standard_output",
    "forget_standard_output",
    "open_standard_streams",
]

#: Signals that ask a process to end. A shell shows 128 and the signal's number as the exit code.
_ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class EndedBySignalError(BaseException):
    """A signal asked the process to end. No ``except Exception`` takes it for a fault.

    >>> EndedBySignalError(signal.SIGTERM).exit_code
    143
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def open_standard_streams() -> None:
    """Give streams that the caller has closed something to stand on.

    The first files that are opened would else get their numbers, and what a library prints would
    be written into them. Reading or writing such a stream fails; nobody reads closed messages.
    """
    modes = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)  # of the first two the opposite of their use
    for number, mode in enumerate(modes):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (it lives as long as the process)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def flush_standard_output() -> None:
    """Write what is still buffered; raises OSError where it could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        forget_standard_output()
        raise


def forget_standard_output() -> None:
    """Drop what is still buffered, which would fail again when the process ends."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def end_at_once_on_signals() -> None:
    """From now on a signal that asks to end does so where the process stands, and says so.

    This is for the time before a command writes anything. An exception is not enough there: one
    that comes in a callback from C, as while compiled loops are loaded, is dropped. What the caller
    has set to be ignored stays so, as under ``nohup``.
    """

    def end(number: int, frame: FrameType | None) -> None:
        error = EndedBySignalError(number)
        with suppress(OSError):
            os.write(2, f"ended by {error}\n".encode())
        os._exit(error.exit_code)

    _handle_with(end)


def _handle_with(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Set the handler of the signals that ask to end; gives those that were set before."""
    before = {}
    with suppress(ValueError):  # not the main thread, which alone gets signals
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    return before


class DeferredSignals:
    """While it is entered, a signal that asks to end counts at the next check, or if a second comes.

    Compiled loops and Polars cannot be interrupted safely. Whoever waits for data calls `check`
    from time to time; else the wait might begin just after a signal, and be for ever.

    >>> with DeferredSignals() as signals:
    ...     signal.raise_signal(signal.SIGINT)
    ...     signals.check()
    Traceback (most recent call last):
    piestream.cli.process.EndedBySignalError: SIGINT
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._ending = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = _handle_with(self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._ending:  # what is cleaned up now is not broken off
            return
        if self._came is not None:
            self._ending = True
            raise EndedBySignalError(number)
        self._came = number

    def check(self) -> None:
        """End if a signal has come."""
        if self._came is not None:  # also if a second one was dropped where it came
            self._ending = True
            raise EndedBySignalError(self._came)
