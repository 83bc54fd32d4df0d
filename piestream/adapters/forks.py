"""Sessions in a process that was forked from the one that opened them."""

from __future__ import annotations

import os
from typing import Any, NoReturn
from weakref import WeakSet

__all__ = ["refuse_after_fork"]

_opened: WeakSet[Any] = WeakSet()


class _LeftBehind:
    """The lock of a session that a fork has copied. Another thread may hold the one that it had."""

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            "this session was opened before the process was forked, and threads that it needs are "
            "not there after a fork: take its snapshot() before, and open it in the new process, "
            "query.open(state=...); start processes by multiprocessing.get_context('spawn')"
        )

    def __exit__(self, *_: object) -> None:
        """Never reached."""


def refuse_after_fork(session: Any) -> None:
    """Have each call of a session fail in processes that are forked from here on.

    Its ``_lock`` is exchanged there, so that calls in this process cost nothing more.
    """
    _opened.add(session)


def _leave_behind() -> None:
    for session in list(_opened):
        session._lock = _LeftBehind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)
