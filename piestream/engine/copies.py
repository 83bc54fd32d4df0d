"""Copies of an open stream: what changes is copied, what never does is shared.

The whole is copied by `copy.deepcopy`, so that nothing is forgotten. Classes say for themselves, by
``__deepcopy__``, what of them never changes, and what is copied faster or otherwise.
"""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, TypeVar

__all__ = ["copied_but"]

T = TypeVar("T")


def copied_but(thing: T, memo: dict[int, Any], **given: Any) -> T:
    """A deep copy of an object, whose attributes of these names are the values that are given.

    >>> class Counter:
    ...     def __init__(self) -> None:
    ...         self.name, self.seen = ["cars"], [1, 2]
    >>> counter = Counter()
    >>> other = copied_but(counter, {}, name=counter.name)
    >>> other.name is counter.name, other.seen is counter.seen, other.seen
    (True, False, [1, 2])
    """
    other = copy(thing)
    memo[id(thing)] = other
    for name, value in vars(thing).items():
        vars(other)[name] = given[name] if name in given else deepcopy(value, memo)
    return other
