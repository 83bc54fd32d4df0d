"""Shapes: what words of memory mean, declared as classes that the compiled loops and Python read.

A record is a place in memory, and costs what a pointer costs. Its fields are the words that lie
there, in the order they are declared; what it *carries* is not in memory, but goes with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
    register_model,
)

from piestream.compiled.interpreted import Place, at_word
from piestream.compiled.loops import FLAGS, WORDS, Address, compiled, made

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_WORD = ir.IntType(64)


class Words(Place):
    """Words that have no names."""


class Flags(Place):
    """Flags, a byte each."""


class Rows(Place, Generic[T]):
    """Records that lie one behind the other; or words."""

    element: Any

    def __getitem__(self, number: int) -> T:  # type: ignore[override]
        row: T = self.element(at_word(self, number * self.element.words))
        return row


#: Rows that lie elsewhere: the word says where, counted from the beginning of the record.
Table = Annotated[Rows[T], "elsewhere"]
#: What goes with a record without being in memory.
Carried = Annotated[T, "carried"]


class Record(Place):
    """A place in memory. ``record[n]`` is its n-th word, whether that has a name or not."""

    words: ClassVar[int]  # how many
    type: ClassVar[RecordType]
    fields: ClassVar[dict[str, tuple[str, int, Any]]]  # how and where each lies, and its type
    carried: ClassVar[dict[str, Any]]
    methods: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        cls.type, cls.fields, cls.carried, cls.words = RecordType(cls), {}, {}, 0
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
        for name, hint in hints.items():
            if get_origin(hint) is ClassVar or name in Place.__annotations__:
                continue
            what, *note = get_args(hint) if get_origin(hint) is Annotated else (hint,)
            if note == ["carried"]:
                cls.carried[name] = numba_type(what)
                continue
            is_rows = get_origin(what) is Rows and note != ["elsewhere"]
            how = "rows" if is_rows else "elsewhere" if note else "word"
            cls.fields[name] = how, cls.words, numba_type(what)
            if not is_rows:
                cls.words += 1
            elif note:  # so many; rows without a number are the last, and as many as there are
                cls.words += note[0] * getattr(get_args(what)[0], "words", 1)
        new = type(f"new {cls.__name__}", (_New,), {"key": cls, "record": cls})
        infer_global(cls, types.Function(new))
        lower_builtin(cls, types.VarArg(types.Any))(_new)
        own = {name: _loop(f, cls) for name, f in vars(cls).items() if hasattr(f, "is_method")}
        cls.methods = {**cls.methods, **own}

    def __init__(self, place: Place, *carried: Any) -> None:
        super().__init__(place.array, place.at)
        vars(self).update(zip(self.carried, carried, strict=True))

    if not TYPE_CHECKING:  # in Python; mypy knows the fields from their annotations

        def __getattr__(self, name: str) -> Any:
            how, word, shape = self.fields[name]
            if how == "word":
                return self[word]
            place = at_word(self, word if how == "rows" else self[word])
            if not isinstance(shape, RowsType):
                return place
            rows: Rows[Any] = Rows(place.array, place.at)
            rows.element = shape.element.record
            return rows

        def __setattr__(self, name: str, value: int) -> None:
            self[self.fields[name][1]] = value


def kernel(function: F) -> F:
    """A loop, compiled for the types that it is annotated with."""
    loop: F = _loop(function)
    return loop


def method(function: F) -> F:
    """A method of a record that loops can call."""
    function.is_method = True  # type: ignore[attr-defined]
    return function


def _loop(function: Callable[..., Any], owner: Any = None) -> Any:
    hints = get_type_hints(function, localns={owner.__name__: owner} if owner else None)
    result = numba_type(hints.pop("return"))
    arguments = [numba_type(hint) for hint in ([owner] if owner else []) + [*hints.values()]]
    return compiled(result, *arguments)(function)


def numba_type(hint: Any) -> Any:
    """The Numba type of what is annotated."""
    if get_origin(hint) is tuple:
        return types.Tuple([numba_type(each) for each in get_args(hint)])
    if get_origin(hint) is Rows:
        (row,) = get_args(hint)
        return WORDS if row is int else RowsType(row.type)
    return hint.type if isinstance(hint, type) and issubclass(hint, Record) else _PLAIN[hint]


_PLAIN = {int: types.int64, bool: types.boolean, type(None): types.void, Words: WORDS, Flags: FLAGS}


# -- what Numba is told ---------------------------------------------------------------------------
class RecordType(Address):
    """The type of a record: its address, and what it carries."""

    known: ClassVar[dict[str, RecordType]] = {}

    def __init__(self, record: type[Record]) -> None:
        self.record = record
        super().__init__(record.__name__)
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
            loop = made(record.methods[name])
            what = {"key": loop.entry_point, "loop": loop}
            return types.BoundFunction(type(name, (_Method,), what), this)
        return record.fields[name][2] if name in record.fields else record.carried.get(name)


class _Method(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        this, *expected = self.loop.signature.args
        return signature(self.loop.signature.return_type, *expected, recvr=this)


class _New(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        return signature(self.record.type, arguments[0], *self.record.carried.values())


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


@lower_getattr_generic(RecordType)
def _get(context: Any, builder: Any, this: Any, value: Any, name: str) -> Any:
    if name in this.record.carried:
        return builder.extract_value(value, 1 + [*this.record.carried].index(name))
    how, word, shape = this.record.fields[name]
    address = _on(builder, value, word)
    if how == "rows":
        return _shaped(context, builder, shape, address)
    found = builder.load(address)
    return found if how == "word" else _shaped(context, builder, shape, _on(builder, value, found))


@lower_setattr_generic(RecordType)
def _set(context: Any, builder: Any, sig: Any, arguments: Any, name: str) -> None:
    builder.store(arguments[1], _on(builder, arguments[0], sig.args[0].record.fields[name][1]))


@lower_builtin(operator.getitem, RowsType, types.Integer)
def _row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    words = builder.mul(arguments[1], _WORD(sig.return_type.record.words))
    return _shaped(context, builder, sig.return_type, _on(builder, arguments[0], words))


@lower_builtin(operator.getitem, RecordType, types.Integer)
def _word(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return builder.load(_on(builder, *arguments))


@lower_builtin(operator.setitem, RecordType, types.Integer, types.Integer)
def _set_word(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    builder.store(arguments[2], _on(builder, *arguments[:2]))
    return context.get_dummy_value()
