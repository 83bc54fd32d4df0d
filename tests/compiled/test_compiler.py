"""Loops that others call become machine code only as parts of them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from piestream.compiled.interpreted import INTERPRETED
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, Carried, Record, Words, kernel, separate_kernel

if not INTERPRETED:
    from numba.core.runtime import _nrt_python, rtsys

    from piestream.compiled.collection import MANY_OBJECTS, seldom_collected
    from piestream.compiled.compiler import compiled_part

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")


@kernel
def _doubled(words: Words, at: int) -> int:
    return 2 * words[at]


@kernel
def _sum_from(words: Words, at: int, end: int) -> int:
    """Calls itself, and another."""
    if at == end:
        return 0
    return _doubled(words, at) + _sum_from(words, at + 1, end)


def test_a_part_has_no_machine_code_of_its_own() -> None:
    part = compiled_part(_sum_from)
    engine = part.library._codegen._engine
    assert not engine.is_symbol_defined(part.fndesc.mangled_name)
    assert not engine.is_symbol_defined(compiled_part(_doubled).fndesc.mangled_name)


def test_parts_of_parts_work_in_whoever_calls_them() -> None:
    @kernel
    def total(array: Array) -> int:
        found = _sum_from(pointer(array), 0, array.size)
        keep_alive(array)
        return found

    @kernel
    def first(array: Array) -> int:
        found = _doubled(pointer(array), 0)
        keep_alive(array)
        return found

    array = np.arange(1, 101)
    assert total(array) == 10_100
    assert first(array) == 2


class _Pair(Record):
    first: int
    second: int

    factor: Carried[int]


@separate_kernel
def _grown(pair: _Pair, array: Array, more: int) -> Array:
    """A longer array, that begins with what a pair and its factor give."""
    if more < 0:
        raise ValueError("an array cannot shrink")
    longer = np.zeros(array.size + more, np.int64)
    longer[0] = pair.factor * (pair.first + pair.second)
    pair.second = more
    return longer


@kernel
def _call_grown(address: int, array: Array, more: int) -> Array:
    longer = _grown(address, _Pair(pointer(array), 10), array, more)
    keep_alive(array)
    return longer


def test_a_separate_loop_is_called_at_its_address_with_records_and_arrays() -> None:
    array = np.array([1, 2, 3])
    for more in (0, 5):
        longer = _call_grown(_grown.address(), array, more)
        assert longer.tolist() == [10 * (1 + (2 if more == 0 else 0)), *[0] * (2 + more)]
        assert array.tolist() == [1, more, 3]
    assert _grown.address() == _grown.address()


def test_what_a_separate_loop_raises_reaches_who_called_it() -> None:
    array = np.array([1, 2, 3])
    with pytest.raises(ValueError, match="cannot shrink"):
        _call_grown(_grown.address(), array, -1)
    assert _call_grown(_grown.address(), array, 0).size == 3  # and nothing is broken by that


def test_separate_loops_leak_no_arrays() -> None:
    array = np.arange(3)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for _ in range(10):
            _call_grown(_grown.address(), array, 100)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc > before.alloc
    assert after.alloc - before.alloc == after.free - before.free


def test_garbage_is_collected_seldom_only_while_a_loop_is_compiled() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(701, 11, 12)
        with seldom_collected(), seldom_collected():
            assert gc.get_threshold() == (MANY_OBJECTS, 11, 12)
        assert gc.get_threshold() == (701, 11, 12)
        with pytest.raises(ValueError, match="fails"), seldom_collected():
            raise ValueError("fails")
        assert gc.get_threshold() == (701, 11, 12)
        with seldom_collected():
            gc.set_threshold(5, 6, 7)  # what another thread wants holds
        assert gc.get_threshold() == (5, 6, 7)
        for own in (0, MANY_OBJECTS + 1):  # never, or less often
            gc.set_threshold(own, 11, 12)
            with seldom_collected():
                assert gc.get_threshold() == (own, 11, 12)
    finally:
        gc.set_threshold(*before)
