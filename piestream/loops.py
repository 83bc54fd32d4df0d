"""What the compiled loops share.

Inside, they pass pointers instead of arrays. Numba counts references, atomically, at every call
that passes an array, and looks at every index whether it is negative; the first alone took nine
tenths of the detector's time. Whoever takes a pointer keeps the array it came from.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

#: Times are often a view of a column that is not ours to write.
TIMES = types.Array(types.int64, 1, "C", readonly=True)

#: Words of state or tables, and flags a byte each.
WORDS = types.CPointer(types.int64)
FLAGS = types.CPointer(types.uint8)
ARRAY = types.int64[::1]
INT = types.int64
BOOL = types.boolean
NOTHING = types.void


def compiled(result, *arguments):
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: compiling a way in from Python is spared.
    """
    within = any(isinstance(argument, types.CPointer) for argument in arguments)
    return njit(
        result(*arguments),
        cache=True,
        nogil=True,
        no_cpython_wrapper=within,
        no_cfunc_wrapper=True,
    )


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
    """The pointer ``count`` elements on."""
    signature = words(words, types.int64)

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return signature, generate


@intrinsic
def as_floats(typingctx, words):
    """The same words read as floating-point numbers."""
    floats = types.CPointer(types.float64)
    signature = floats(words)

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType().as_pointer())

    return signature, generate
