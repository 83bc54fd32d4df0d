"""The process around a command: its standard streams and the signals that ask it to end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType

__all__ = [
    "EndedBySignalError",
    "deferred_signals",
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


@contextmanager
def deferred_signals(waiting: CodeType | None = None) -> Iterator[Callable[[], None]]:
    """A signal that asks to end counts when the function that this gives is called, or a second comes.

    Compiled loops and Polars cannot be interrupted safely. The function ``waiting`` only waits for
    data: while it runs, the first signal counts at once. What the caller has set to be ignored stays so, as
    under ``nohup``.
    """
    came: int | None = None
    ending = False

    def end(number: int) -> None:
        nonlocal ending
        if not ending:  # what is cleaned up then is not broken off
            ending = True
            raise EndedBySignalError(number)

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came is not None or (frame is not None and frame.f_code is waiting):
            end(number)
        came = number

    def check() -> None:
        if came is not None:
            end(came)

    before = {}
    try:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, note)
    except ValueError:  # not the main thread, which alone gets signals
        yield check
        return
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
