"""What the compiled loops share."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

#: Times are often a view of a column that is not ours to write.
TIMES = types.Array(types.int64, 1, "C", readonly=True)


@intrinsic
def borrowed(typingctx, array):
    """The same array without a share in its ownership.

    Numba counts references at every call that passes an array, atomically; that took nine tenths of
    the detector's time. A borrowed array is not counted. Its owner must outlive it.
    """
    signature = array(array)

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(array)(context, builder, value=arguments[0])
        view.meminfo = ir.Constant(view.meminfo.type, None)
        return view._getvalue()

    return signature, generate
