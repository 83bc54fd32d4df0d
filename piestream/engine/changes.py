"""Whether a change of a stream's state was interrupted."""

from __future__ import annotations

from types import TracebackType

from piestream.errors import StreamError

__all__ = ["ChangeGuard", "cause_of"]


class ChangeGuard:
    """Surrounds each change of a state, and tells whether one was interrupted.

    An interruption (Ctrl-C, or another exception of a signal's handler) and a lack of memory may
    end a change anywhere, also between two arrays that refer to each other. Rows that are refused
    are not in the state: after a `StreamError` it is as it was.

    >>> guard = ChangeGuard()
    >>> try:
    ...     with guard:
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     guard.changing
    True
    """

    __slots__ = ("changing",)

    def __init__(self) -> None:
        #: A change is under way, or was interrupted. For one event it is set by hand: a ``with``
        #: statement costs a tenth of the whole.
        self.changing = False

    def __enter__(self) -> None:
        self.changing = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, StreamError):
            self.changing = False
        elif isinstance(error, SystemError):
            raise cause_of(error) from None


def cause_of(error: SystemError) -> BaseException:
    """The exception of a signal's handler that ran while a loop handed over its result.

    Python wraps it in SystemErrors, since the loop has a result besides.
    """
    cause: BaseException | None = error
    while isinstance(cause, SystemError):
        cause = cause.__cause__ or cause.__context__
    return cause or error
