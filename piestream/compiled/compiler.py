"""How loops are compiled: ahead of their first call, kept on disk, and without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.compiler import Flags
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin

from piestream.compiled.cache import KernelCache

# Divisors are never 0 where loops divide, so that nothing has to look whether they are.
_ERROR_MODEL = "numpy"


class Address(types.Type):
    """The Numba type of a record or of rows (lowering.py)."""


def compile_loop(function: Callable[..., Any], signature: Any, inline: bool) -> Any:
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: it is compiled when one of them is, as a
    part of that one, and there is no entry for Python. It stays the function that it is.
    """
    if any(isinstance(argument, types.CPointer | Address) for argument in signature.args):
        if function.__name__ in function.__code__.co_names:
            return _recursive_loop(function, signature)
        template = type(function.__name__, (_InnerCall,), {"key": function, "result": signature})
        infer_global(function, types.Function(template))
        lower_inner_loop(function, function, signature, inline)
        return function
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, error_model=_ERROR_MODEL)(function)
    dispatcher._cache = KernelCache(function)
    dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


class _InnerCall(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        return self.result if len(arguments) == len(self.result.args) else None


def lower_inner_loop(
    key: Any, function: Callable[..., Any], signature: Any, inline: bool = False
) -> None:
    """Say how a call of what Numba knows as ``key`` becomes machine code."""
    made: list[Any] = []

    def call(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        if made:
            context.active_code_library.add_linking_library(made[0].library)
        else:
            flags = Flags()
            flags.nrt = True
            flags.error_model = _ERROR_MODEL
            flags.forceinline = inline
            made.append(
                context.compile_subroutine(builder, function, signature, flags=flags, caching=False)
            )
        return context.call_internal(builder, made[0].fndesc, signature, arguments)

    lower_builtin(key, types.VarArg(types.Any))(call)


def _recursive_loop(function: Callable[..., Any], signature: Any) -> Any:
    """One that calls itself, which only what Numba makes for Python can do."""
    dispatcher = njit(
        nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model=_ERROR_MODEL
    )(function)
    template = dispatcher.get_call_template

    def compile_first(arguments: Any, keywords: Any) -> Any:
        if not dispatcher.overloads:
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return template(arguments, keywords)

    dispatcher.get_call_template = compile_first
    return dispatcher
