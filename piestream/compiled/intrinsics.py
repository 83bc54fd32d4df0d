"""What loops do with memory, as Numba's machine code (`primitives` says what it is)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.cpython.unsafe.numbers import leading_zeros as leading_zeros
from numba.cpython.unsafe.numbers import trailing_zeros as trailing_zeros
from numba.extending import intrinsic

#: Words of state or of a program.
WORDS = types.CPointer(types.int64)


@intrinsic
def pointer(typingctx: Any, array: Any) -> Any:
    """Where an array's elements begin."""
    signature = types.CPointer(array.dtype)(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])
        return view.data

    return signature, generate


@intrinsic
def keep_alive(typingctx: Any, array: Any) -> Any:
    """Keep an array at least until here: Numba frees it after the last use that it knows of."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), generate


def _address(words: Any, builder: Any, value: Any) -> Any:
    """The address in a pointer, or in a record or rows, whose values begin with it."""
    return value if isinstance(words, types.CPointer) else builder.extract_value(value, 0)


@intrinsic
def at_word(typingctx: Any, words: Any, count: Any) -> Any:
    """The pointer ``count`` elements on, from a pointer, a record or rows."""
    result = words if isinstance(words, types.CPointer) else WORDS

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(_address(words, builder, arguments[0]), [arguments[1]])

    return result(words, types.int64), generate


@intrinsic
def within(typingctx: Any, words: Any, at: Any, count: Any) -> Any:
    """The pointer ``at`` elements on; only the next ``count`` are meant, which Python checks."""
    result = words if isinstance(words, types.CPointer) else WORDS

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(_address(words, builder, arguments[0]), [arguments[1]])

    return result(words, types.int64, types.int64), generate


@intrinsic
def as_floats(typingctx: Any, words: Any) -> Any:
    """The same words read as floating-point numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(_address(words, builder, arguments[0]), ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(words), generate
