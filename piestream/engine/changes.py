"""A count of the changes of a stream's state."""

from __future__ import annotations

from types import TracebackType

from piestream.errors import StreamError

__all__ = ["ChangeCount", "cause_of"]


class ChangeCount:
    """Counts the changes that have begun, but for those that were refused.

    An interruption (Ctrl-C, or another exception of a signal's handler) and a lack of memory may
    end a change anywhere, also between two arrays that refer to each other. Rows that are refused
    are not in the state: after a `StreamError` it is as it was.

    >>> changes = ChangeCount()
    >>> try:
    ...     with changes:
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     changes.begun
    1
    """

    __slots__ = ("begun",)

    def __init__(self) -> None:
        #: For one event it is counted by hand: a ``with`` statement costs a tenth of the whole.
        self.begun = 0

    def __enter__(self) -> None:
        self.begun += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and issubclass(kind, StreamError):
            self.begun -= 1
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
