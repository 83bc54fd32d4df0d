"""How loops are compiled: ahead of their first call, kept on disk, and without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit, types

from piestream.compiled.cache import KernelCache


class Address(types.Type):
    """The Numba type of a record or of rows (lowering.py)."""


def compile_loop(function: Callable[..., Any], signature: Any, inline: bool) -> Any:
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: it is compiled when one of them asks for
    it, as a part of that one, and neither kept on disk nor loaded from there.
    """
    inner = any(isinstance(argument, types.CPointer | Address) for argument in signature.args)
    dispatcher = njit(
        nogil=True,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
        forceinline=inline,
        error_model="numpy",  # no loop divides by 0, so none has to look whether it does
    )(function)
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
