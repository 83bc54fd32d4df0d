"""The command line: ``piestream run``, ``report``, ``check``, ``explain``, ``watch``, ``warm`` and ``demo``.

Nothing heavy is imported here: ``piestream --help`` answers at once.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process."""
    import sys

    from piestream.cli.process import (
        end_at_once_on_signals,
        flush_standard_output,
        open_standard_streams,
    )

    open_standard_streams()
    end_at_once_on_signals()
    from piestream.cli.app import app
    from piestream.cli.faults import BAD_INPUT

    code: object = 0
    fault: OSError | None = None  # of standard output: those of files are told where they occur
    try:
        app(prog_name="piestream")
    except SystemExit as end:
        code = end.code
    except OSError as error:
        fault = error
    try:
        flush_standard_output()
    except OSError as error:
        fault = fault or error
    if not code and fault is not None and not isinstance(fault, BrokenPipeError):
        print(f"cannot write standard output: {fault.strerror}", file=sys.stderr)
        code = BAD_INPUT
    sys.exit(code)  # type: ignore[arg-type]  # what SystemExit was made with
