"""How faults end a command: wrong use, a bad query, bad data, a signal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from piestream.adapters.terminal import printable
from piestream.cli.process import EndedBySignalError, forget_standard_output

__all__ = ["BAD_INPUT", "WRONG_USE", "fail", "refuse", "reported"]

#: Exit codes: a bad query or bad data; wrong use of the command line.
BAD_INPUT, WRONG_USE = 1, 2


def refuse(context: typer.Context, message: str) -> NoReturn:
    """Wrong use: say how it is used."""
    typer.echo(f"{context.get_usage()}\n\n{printable(message)}", err=True)
    raise typer.Exit(WRONG_USE)


@contextmanager
def reported(context: typer.Context) -> Iterator[None]:
    """Faults of the user's as messages with exit codes; faults of ours as tracebacks."""
    from polars.exceptions import PolarsError

    from piestream.cli.work import UsageError
    from piestream.errors import OrderError, StreamError, TieError
    from piestream.expressions.diagnostics import QueryError

    try:
        yield
    except BrokenPipeError:  # whoever read from us has enough
        forget_standard_output()
        raise typer.Exit from None
    except EndedBySignalError as signal:
        typer.echo(f"ended by {signal}", err=True)
        raise typer.Exit(signal.exit_code) from None
    except UsageError as error:
        refuse(context, str(error))
    except OrderError as error:
        fail(f"{error}\n  = --sort reads everything and sorts it; --lateness 10s keeps streaming")
    except TieError as error:
        fail(f"{error}\n  = here ties='first' is written --ties first")
    except (QueryError, StreamError) as error:
        fail(str(error))
    except FileNotFoundError as error:
        fail(
            f"a file is missing: {str(error).strip()}\n"
            "  = of an archive, ps.archive(path).verify() tells all that are"
        )
    except (PolarsError, OSError) as error:
        fail(str(error).strip())
    except MemoryError as error:
        text = str(error) or "there is not enough memory"
        fail(f"{text}\n  = without --sort the data streams through")


def fail(message: str) -> NoReturn:
    typer.echo(printable(message), err=True)
    raise typer.Exit(BAD_INPUT) from None
