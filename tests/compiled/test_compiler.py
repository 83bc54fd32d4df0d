"""Loops that others call become machine code only as parts of them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from piestream.compiled.interpreted import INTERPRETED
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, Words, kernel

if not INTERPRETED:
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
