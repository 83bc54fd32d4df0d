"""Records for Numba: their types, and the machine code of what is done with them.

A record is a pointer, and the values that it carries. Attributes are loads and stores; methods are
compiled functions that take the record first.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, ClassVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
)

from piestream.compiled.compiler import Address, SeparateLoop, compiled_part
from piestream.compiled.intrinsics import WORDS

if TYPE_CHECKING:
    from piestream.compiled.records import Record

_WORD = ir.IntType(64)


class RecordType(Address):
    """The type of a record: its address, and what it carries."""

    known: ClassVar[dict[str, RecordType]] = {}

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        # with its module: types of one name are the same to Numba
        super().__init__(f"{record.__module__}.{record.__qualname__}")
        self.known[self.name] = self

    def __reduce__(self) -> tuple[Any, ...]:  # by name in Numba's cache, where its class may be new
        return _known, (self.name,)


def _known(name: str) -> Any:
    return RecordType.known.get(name) or types.Opaque(f"{name}, which is no more")


class RowsType(Address):
    """The type of rows: the address of the first."""

    def __init__(self, element: RecordType) -> None:
        self.element = element
        super().__init__(f"Rows({element.name})")


def register(record: type[Record]) -> None:
    """Let loops make records of this class."""
    new = type(f"new {record.__name__}", (_New,), {"key": record, "record": record})
    infer_global(record, types.Function(new))
    lower_builtin(record, types.VarArg(types.Any))(_new)


def register_separate(loop: SeparateLoop) -> None:
    """Let loops call a separate one: its address comes before its arguments."""
    called = type(f"call {loop.function.__name__}", (_Separate,), {"key": loop, "loop": loop})
    infer_global(loop, types.Function(called))
    lower_builtin(loop, types.VarArg(types.Any))(_call_at)


@register_model(RecordType)
@register_model(RowsType)
class _Model(models.StructModel):
    def __init__(self, manager: Any, shape: Any) -> None:
        carried = shape.record.carried if isinstance(shape, RecordType) else {}
        super().__init__(manager, shape, [("", WORDS), *carried.items()])


@infer_getattr
class _Attributes(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, this: RecordType, name: str) -> Any:
        record = this.record
        if name in record.methods:
            loop = compiled_part(record.methods[name])
            what = {"key": loop.entry_point, "loop": loop}
            return types.BoundFunction(type(name, (_Method,), what), this)
        return record.fields[name].type if name in record.fields else record.carried.get(name)


class _Method(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        this, *expected = self.loop.signature.args
        return signature(self.loop.signature.return_type, *expected, recvr=this)


class _New(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        return signature(self.record.type, arguments[0], *self.record.carried.values())


class _Separate(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        expected = self.loop.signature
        return signature(expected.return_type, types.int64, *expected.args)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if not isinstance(arguments[0], Address):
            return None
        return signature(getattr(arguments[0], "element", types.int64), arguments[0], types.int64)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        if not isinstance(arguments[0], RecordType):
            return None
        return signature(types.void, arguments[0], types.int64, types.int64)


def _on(builder: Any, value: Any, word: Any) -> Any:
    """The address so many words behind that of a record or of rows."""
    word = _WORD(word) if isinstance(word, int) else word
    return builder.gep(builder.extract_value(value, 0), [word])


def _shaped(context: Any, builder: Any, shape: Any, address: Any) -> Any:
    """An address as a record, rows, or bare words."""
    if shape == WORDS:
        return address
    undefined = ir.Constant(context.get_value_type(shape), ir.Undefined)
    return builder.insert_value(undefined, address, 0)


def _new(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    address, *carried = arguments
    if isinstance(sig.args[0], Address):
        address = builder.extract_value(address, 0)
    value = _shaped(context, builder, sig.return_type, address)
    for member, what in enumerate(carried, 1):
        value = builder.insert_value(value, what, member)
    return value


def _call_at(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    address, *others = arguments
    result, types_of_others = sig.return_type, sig.args[1:]
    convention = context.call_conv
    shape = convention.get_function_type(result, types_of_others)
    loop = builder.inttoptr(address, shape.as_pointer())
    status, value = convention.call_function(builder, loop, result, types_of_others, others)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return value


@lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, this: Any, value: Any, name: str) -> Any:
    if name in this.record.carried:
        return builder.extract_value(value, 1 + [*this.record.carried].index(name))
    field = this.record.fields[name]
    address = _on(builder, value, field.offset)
    if field.kind == "rows":
        return _shaped(context, builder, field.type, address)
    found = builder.load(address)
    if field.kind == "word":
        return found
    return _shaped(context, builder, field.type, _on(builder, value, found))


@lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, sig: Any, arguments: Any, name: str) -> None:
    builder.store(arguments[1], _on(builder, arguments[0], sig.args[0].record.fields[name].offset))


@lower_builtin(operator.getitem, RowsType, types.Integer)
def _row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    words = builder.mul(arguments[1], _WORD(sig.return_type.record.size))
    return _shaped(context, builder, sig.return_type, _on(builder, arguments[0], words))


@lower_builtin(operator.getitem, RecordType, types.Integer)
def _word(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return builder.load(_on(builder, *arguments))


@lower_builtin(operator.setitem, RecordType, types.Integer, types.Integer)
def _set_word(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    builder.store(arguments[2], _on(builder, *arguments[:2]))
    return context.get_dummy_value()
