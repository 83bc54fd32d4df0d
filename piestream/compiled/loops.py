"""What the compiled loops share.

Inside, they pass pointers instead of arrays. Numba counts references, atomically, at every call
that passes an array, and looks at every index whether it is negative; the first alone took nine
tenths of the detector's time. Whoever takes a pointer keeps the array it came from.
"""

from __future__ import annotations

import os
from functools import partial

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.cpython.unsafe.numbers import leading_zeros as leading_zeros
from numba.cpython.unsafe.numbers import trailing_zeros as trailing_zeros
from numba.extending import intrinsic

#: Times are often a view of a column that is not ours to write.
TIMES = types.Array(types.int64, 1, "C", readonly=True)


class Address(types.Type):
    """The Numba type of a record or of rows (shapes.py)."""


#: Run the loops in Python, to step through them or to have every place they look at checked.
INTERPRETED = bool(os.environ.get("PIESTREAM_INTERPRETED"))


#: Words of state or tables, and flags a byte each.
WORDS = types.CPointer(types.int64)
FLAGS = types.CPointer(types.uint8)
ARRAY = types.int64[::1]
INT = types.int64
BOOL = types.boolean
NOTHING = types.void


def compiled(result, *arguments):
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: it is compiled when one of them asks for
    it, as a part of that one, and neither kept on disk nor loaded from there.
    """
    within = any(isinstance(argument, (types.CPointer, Address)) for argument in arguments)
    if INTERPRETED and (within or any(isinstance(a, types.Array) for a in arguments)):
        return lambda function: function

    def decorate(function):
        options = {"nogil": True, "no_cpython_wrapper": within, "no_cfunc_wrapper": True}
        if not within:
            return njit(result(*arguments), cache=True, **options)(function)
        dispatcher = njit(**options)(function)
        dispatcher.declared = result(*arguments)
        dispatcher.get_call_template = partial(_template, dispatcher)
        return dispatcher

    return decorate


def made(dispatcher):
    """The machine code of a loop, which is made when it is first asked for."""
    if not dispatcher.overloads:
        dispatcher.compile(dispatcher.declared)
        dispatcher.disable_compile()
    return next(iter(dispatcher.overloads.values()))


def _template(dispatcher, arguments, keywords):
    made(dispatcher)
    return type(dispatcher).get_call_template(dispatcher, arguments, keywords)


@intrinsic
def pointer(typingctx, array):
    """Where an array's elements begin."""
    signature = types.CPointer(array.dtype)(array)

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])
        return view.data

    return signature, generate


@intrinsic
def at_word(typingctx, words, count):
    """The pointer ``count`` elements on, from a pointer, a record or rows."""
    bare = isinstance(words, types.CPointer)
    signature = (words if bare else WORDS)(words, types.int64)

    def generate(context, builder, signature, arguments):
        place = arguments[0] if bare else builder.extract_value(arguments[0], 0)
        return builder.gep(place, [arguments[1]])

    return signature, generate


@intrinsic
def as_floats(typingctx, words):
    """The same words read as floating-point numbers."""
    floats = types.CPointer(types.float64)
    signature = floats(words)

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType().as_pointer())

    return signature, generate


if INTERPRETED:
    from piestream.compiled import interpreted as places

    pointer, at_word, as_floats = places.pointer, places.at_word, places.as_floats
    leading_zeros, trailing_zeros = places.leading_zeros, places.trailing_zeros
