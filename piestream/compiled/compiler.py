"""How loops are compiled: ahead of their first call, kept on disk, and without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from numba import njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock

from piestream.compiled.announcement import Announcement
from piestream.compiled.cache import KernelCache
from piestream.compiled.collection import seldom_collected

#: What this process has compiled.
announcement = Announcement()


class Address(types.Type):
    """The Numba type of a record or of rows (lowering.py)."""


class Loop:
    """A loop of which Numba knows nothing until Python calls it, or another loop that is compiled does.

    Most loops are called by others only, and are parts of those: where these are loaded from the disk,
    nobody ever asks for their parts.
    """

    #: All there are.
    known: ClassVar[list[Loop]] = []

    def __init__(
        self, function: Callable[..., Any], declared: Callable[[], Any], inline: bool
    ) -> None:
        self.function = function
        self._declared = declared
        self._inline = inline
        self._dispatcher: Any = None
        self.known.append(self)

    @property
    def is_part(self) -> bool:
        """True if only other loops can call this one, because it takes pointers."""
        return _takes_pointers(self._declared())

    @property
    def dispatcher(self) -> Any:
        """The loop as Numba knows it; one that Python may call is compiled, or loaded, for that."""
        if self._dispatcher is None:
            with global_compiler_lock:
                if self._dispatcher is None:
                    self._dispatcher = _compiled(self.function, self._declared(), self._inline)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)


def _takes_pointers(signature: Any) -> bool:
    return any(isinstance(argument, types.CPointer | Address) for argument in signature.args)


def _compiled(function: Callable[..., Any], signature: Any, inline: bool) -> Any:
    """Compile a loop ahead of its first call, keep it on disk, and let other threads run.

    One that takes pointers is called by other loops only: it is compiled when one of them asks for
    it, as a part of that one, and neither kept on disk nor loaded from there.
    """
    inner = _takes_pointers(signature)
    dispatcher = njit(
        nogil=True,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
        forceinline=inline,
        error_model="numpy",  # no loop divides by 0, so none has to look whether it does
        pipeline_class=PartCompiler if inner else Compiler,
    )(function)
    if inner:
        dispatcher.declared = signature
        dispatcher.get_call_template = partial(_template, dispatcher)
    else:
        dispatcher._cache = KernelCache(function, announcement.begin)
        with announcement.of_one(), seldom_collected():
            dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


class SeparateLoop:
    """A loop that others call at an address, and that is compiled once somebody asks for that.

    So what few queries need costs the others no time to compile. How loops call it is in lowering.py.
    """

    #: All there are.
    known: ClassVar[list[SeparateLoop]] = []

    def __init__(self, function: Callable[..., Any], declared: Callable[[], Any]) -> None:
        self.function = function
        self._declared = declared
        self._dispatcher: Any = None
        self.known.append(self)

    @property
    def signature(self) -> Any:
        """The types of what it takes and gives."""
        return self._declared()

    @property
    def is_compiled(self) -> bool:
        """Whether this process has its machine code."""
        return self._dispatcher is not None

    def address(self) -> int:
        """Where its machine code begins; it is loaded from the disk or compiled first."""
        with global_compiler_lock:
            if not self.is_compiled:
                dispatcher = njit(
                    nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy"
                )(self.function)
                dispatcher._cache = KernelCache(self.function, announcement.begin)
                with announcement.of_one(), seldom_collected():
                    dispatcher.compile(self.signature)
                dispatcher.disable_compile()
                self._dispatcher = dispatcher
            compiled = next(iter(self._dispatcher.overloads.values()))
        found: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        return found


def compiled_part(loop: Loop) -> Any:
    """What has been compiled of a loop that others call, which is done on its first use."""
    return _part(loop.dispatcher)


def _part(dispatcher: Any) -> Any:
    if not dispatcher.overloads:
        dispatcher.compile(dispatcher.declared)
        dispatcher.disable_compile()
    return next(iter(dispatcher.overloads.values()))


def _template(dispatcher: Any, arguments: Any, keywords: Any) -> Any:
    _part(dispatcher)
    return type(dispatcher).get_call_template(dispatcher, arguments, keywords)


class PartCompiler(Compiler):
    """Compiles a loop that others call: only with them does it become machine code.

    Numba makes machine code of every function, and of all that it calls again each time, though only
    the outermost one is ever entered: a third of the time that compiling took.
    """

    def compile_extra(self, function: Callable[..., Any]) -> Any:
        self.state.library = _Part(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class _Part(JITCodeLibrary):
    """LLVM code that is linked into that of the callers, and optimized there."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # no machine code

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: an environment belongs to machine code, and no loop has a Python object in it."""
