"""Signals that ask to end: before the work, in its middle, and while data is waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from piestream.adapters.text_blocks import TextPipe
from piestream.cli.process import DeferredSignals, EndedBySignalError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="speaks of POSIX pipes and signals")

# What a handler raises while a callback from C runs is dropped there, and the process goes on.
_DROPPED = """
import ctypes, signal, sys
from piestream.cli import main
sys.argv = ["piestream", "--version"]
try:
    main()
except SystemExit:
    pass
ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.{name}))()
print("went on")
"""


@pytest.mark.parametrize(("name", "exit_code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_during_start_up_ends_even_where_exceptions_are_dropped(
    name: str, exit_code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _DROPPED.format(name=name)], capture_output=True, text=True
    )
    assert done.returncode == exit_code
    assert done.stderr == f"ended by {name}\n"
    assert "went on" not in done.stdout


def test_a_signal_just_before_data_is_waited_for_ends_the_wait() -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"1\n")  # else a wait that is not ended would be for ever
    with (
        os.fdopen(ours, "rb") as stream,
        os.fdopen(theirs, "wb"),
        DeferredSignals() as signals,
    ):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(EndedBySignalError):
            next(TextPipe(stream, True, signals.check).blocks())


def test_a_second_signal_that_is_dropped_where_it_comes_counts_at_the_next_check() -> None:
    with DeferredSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(EndedBySignalError):  # as in a callback from C, which drops it
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(EndedBySignalError, match="SIGINT"):
            signals.check()


def test_signals_are_the_callers_again_after_the_work() -> None:
    before = signal.getsignal(signal.SIGINT)
    with DeferredSignals():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
