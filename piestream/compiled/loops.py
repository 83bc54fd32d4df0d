"""What the compiled loops share: how they are compiled, and what they can do that Python cannot.

Inside, they pass pointers instead of arrays. Numba counts references, atomically, at every call
that passes an array, and looks at every index whether it is negative; the first alone took nine
tenths of the detector's time. Whoever takes a pointer keeps the array alive (`keep_alive`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.cpython.unsafe.numbers import leading_zeros as leading_zeros
from numba.cpython.unsafe.numbers import trailing_zeros as trailing_zeros
from numba.extending import intrinsic

from piestream.compiled import interpreted
from piestream.compiled.cache import KernelCache
from piestream.compiled.interpreted import INTERPRETED

#: Words of state or of a program, and flags a byte each.
WORDS = types.CPointer(types.int64)
FLAGS = types.CPointer(types.uint8)


class Address(types.Type):
    """The Numba type of a record or of rows (lowering.py)."""


def compile_loop(function: Callable[..., Any], signature: Any) -> Any:
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: it is compiled when one of them asks for
    it, as a part of that one, and neither kept on disk nor loaded from there.
    """
    inner = any(isinstance(argument, types.CPointer | Address) for argument in signature.args)
    options = {"nogil": True, "no_cpython_wrapper": inner, "no_cfunc_wrapper": True}
    dispatcher = njit(**options)(function)
    if inner:
        dispatcher.declared = signature
        dispatcher.get_call_template = partial(_template, dispatcher)
    else:
        dispatcher._cache = KernelCache(function)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


def machine_code(dispatcher: Any) -> Any:
    """The machine code of a loop, which is made when it is first asked for."""
    if not dispatcher.overloads:
        dispatcher.compile(dispatcher.declared)
        dispatcher.disable_compile()
    return next(iter(dispatcher.overloads.values()))


def _template(dispatcher: Any, arguments: Any, keywords: Any) -> Any:
    machine_code(dispatcher)
    return type(dispatcher).get_call_template(dispatcher, arguments, keywords)


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
    """The address in a pointer, a record or rows."""
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


if INTERPRETED:
    pointer, at_word, within = interpreted.pointer, interpreted.at_word, interpreted.within
    as_floats, keep_alive = interpreted.as_floats, interpreted.keep_alive
    leading_zeros, trailing_zeros = interpreted.leading_zeros, interpreted.trailing_zeros
