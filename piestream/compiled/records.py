"""Records: what the words of the state and of a program mean, declared once for loops and Python.

A record is a place in an array of 64-bit words, and costs what a pointer costs. Its fields are the
words that lie there, in the order in which they are declared; what it *carries* is not in memory,
but goes with it.

For example::

    class Interval(Record):
        start: int
        end: int
    class Log(Record):
        count: int
        latest: Annotated[Rows[Interval], 2]  # two of them, one behind the other
        others: Table[Interval]  # a word that says where they lie
    Interval.size, Log.size, Log.offset("others")
    # (2, 6, 5)
    words = assemble(Log, others=[[1, 5], [8, 9]], count=7)
    log = Log.over(words)
    log.count, log.others[1].start
    # (7, 8)
    log.latest[1].end = 4
    words.tolist()
    # [7, 0, 0, 0, 4, 6, 1, 5, 8, 9]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, wraps
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numba import types
from numpy.typing import NDArray

from piestream.compiled.compiler import Loop, SeparateLoop
from piestream.compiled.interpreted import (
    INTERPRETED,
    BitWords,
    Flags,
    Place,
    Words,
    at_word,
    within,
)
from piestream.compiled.intrinsics import WORDS
from piestream.compiled.lowering import RecordType, RowsType, register, register_separate

__all__ = [
    "Array",
    "BitRows",
    "BitWords",
    "Carried",
    "FlagRows",
    "Flags",
    "Record",
    "Rows",
    "Separate",
    "Table",
    "Times",
    "WordRows",
    "WordTable",
    "Words",
    "assemble",
    "inline_kernel",
    "kernel",
    "method",
    "ready",
    "separate_kernel",
]

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
F = TypeVar("F", bound=Callable[..., Any])

# -- the types of what loops take ------------------------------------------------------------------
Array = NDArray[np.int64]
#: Times are often a view of a column that is not ours to write.
Times = Annotated[NDArray[np.int64], "read-only"]
#: A row of words for each column, or of flags.
WordRows = Annotated[NDArray[np.int64], "2-D"]
FlagRows = Annotated[NDArray[np.uint8], "2-D"]
#: A row of words for each predicate, with 64 bits a word.
BitRows = Annotated[NDArray[np.uint64], "2-D"]


_PLAIN = {
    int: types.int64,
    bool: types.boolean,
    float: types.float64,
    type(None): types.void,
    np.uint64: types.uint64,
    Words: WORDS,
    BitWords: types.CPointer(types.uint64),
    Flags: types.CPointer(types.uint8),
    Array: types.int64[::1],
    Times: types.Array(types.int64, 1, "C", readonly=True),
    WordRows: types.int64[:, ::1],
    FlagRows: types.uint8[:, ::1],
    BitRows: types.uint64[:, ::1],
}


class Rows(Words, Generic[T]):
    """Records that lie one behind the other."""

    _element: Any

    def __getitem__(self, number: int) -> T:  # type: ignore[override]
        size = self._element.size
        row: T = self._element(within(self, number * size, size))
        return row


#: Rows, or words, that lie elsewhere: the word says where, from the beginning of the record.
Table = Annotated[Rows[T], "elsewhere"]
WordTable = Annotated[Words, "elsewhere"]
#: What goes with a record without being in memory.
Carried = Annotated[T, "carried"]


@dataclass(frozen=True)
class Field:
    """A field of a record: where it lies, and what is there.

    ``kind`` is "word", "rows" (which begin there), or "table" (the word says where rows begin).
    """

    kind: str
    offset: int
    type: Any
    #: How many rows there are; None where the record does not say.
    count: int | None = None


class Record(Words):
    """A place in memory. ``record[n]`` is its n-th word, whether that has a name or not."""

    size: ClassVar[int]  # in words, with all fields
    type: ClassVar[RecordType]
    fields: ClassVar[dict[str, Field]]
    carried: ClassVar[dict[str, Any]]
    methods: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls.type, cls.fields, cls.carried, cls.size = RecordType(cls), {}, {}, 0
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
        for name, hint in hints.items():
            if get_origin(hint) is not ClassVar and name not in Place.__annotations__:
                assert not hasattr(Record, name), f"a record has something else called {name}"
                cls._declare(name, hint)
        register(cls)
        cls.methods = {
            name: _loop(function, cls)
            for base in reversed(cls.__mro__)
            for name, function in vars(base).items()
            if hasattr(function, "is_method")
        }
        if INTERPRETED:
            for name, function in cls.methods.items():
                setattr(cls, name, function)

    @classmethod
    def _declare(cls, name: str, hint: Any) -> None:
        what, *note = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if note == ["carried"]:
            cls.carried[name] = numba_type(what)
        elif note == ["elsewhere"]:
            cls.fields[name] = Field("table", cls.size, numba_type(what))
            cls.size += 1
        elif what is Words or get_origin(what) is Rows:
            count = note[0] if note else None  # without a number they are the last, and of any
            cls.fields[name] = Field("rows", cls.size, numba_type(what), count)
            size = 1 if what is Words else get_args(what)[0].size
            cls.size += (count or 0) * size
        else:
            cls.fields[name] = Field("word", cls.size, numba_type(what))
            cls.size += 1

    def __init__(self, place: Place, *carried: Any) -> None:
        super().__init__(place._array, place._at, place._first, place._end)
        vars(self).update(zip(self.carried, carried, strict=True))

    @classmethod
    def offset(cls, field: str) -> int:
        """In which word of the record a field lies."""
        return cls.fields[field].offset

    @classmethod
    def column_of(cls, rows: Array, field: str, number: int = 0) -> Array:
        """A field of many records, which are the rows of an array: a view.

        Of a field that holds several words it is that with this number.
        """
        column: Array = rows[:, cls.offset(field) + number]
        return column

    @classmethod
    def table_of(cls, words: Array, field: str) -> Array:
        """The words of a table of the record that an array begins with: a view."""
        tables = [name for name, each in cls.fields.items() if each.kind == "table"]
        following = tables[tables.index(field) + 1 :]
        first = words[cls.offset(field)]
        end = words[cls.offset(following[0])] if following else words.size
        return words[first:end]

    @classmethod
    def over(cls, array: Array, at: int = 0, **carried: Any) -> Self:
        """The record that lies in an array, from word ``at`` on, to be read and written.

        What it carries may be left out where nobody asks for it.
        """
        assert array.flags.c_contiguous, "the record would be one of a copy"
        record = cls.__new__(cls)
        # a memoryview gives Python's numbers, where loops reckon in 64 bits
        words: Any = memoryview(array.reshape(-1))  # type: ignore[arg-type]
        Place.__init__(record, words, at, at, array.size)
        vars(record).update(carried)
        return record

    @classmethod
    def packed(cls, **values: int | Iterable[Any]) -> list[int]:
        """The words of a record with these values in its fields, of which none may be missing.

        A field of rows takes their words, in one list or in a list each.
        """
        if values.keys() != cls.fields.keys():
            odd = ", ".join(sorted(values.keys() ^ cls.fields.keys()))
            raise TypeError(f"the fields of {cls.__name__} are missing, or have others: {odd}")
        return _flat([values[name] for name in cls.fields])

    if not TYPE_CHECKING:  # in Python; mypy knows the fields from their annotations

        def __getattr__(self, name: str) -> Any:
            field = type(self).fields.get(name)
            if field is None:
                raise AttributeError(f"this {type(self).__name__} has no {name}")
            if field.kind == "word":
                return self[field.offset]
            place = at_word(self, field.offset if field.kind == "rows" else self[field.offset])
            is_words = not isinstance(field.type, RowsType)
            if field.count is not None:
                size = 1 if is_words else field.type.element.record.size
                place = within(place, 0, field.count * size)
            if is_words:
                return place
            rows = Rows(place._array, place._at, place._first, place._end)
            vars(rows)["_element"] = field.type.element.record
            return rows

        def __setattr__(self, name: str, value: int) -> None:
            field = type(self).fields.get(name)
            if field is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            self[field.offset] = value


def _flat(value: Any) -> list[int]:
    if not np.iterable(value):
        return [int(value)]
    words: list[int] = []
    for each in value:
        if isinstance(each, int):
            words.append(int(each))
        else:
            words += _flat(each)
    return words


def assemble(header: type[Record], **values: int | Iterable[Any]) -> Array:
    """An array that begins with a record, behind which its tables lie one after the other.

    A table's value is its words, in one array or list, or in a list a row. A word that is not given is 0.
    """
    words = np.zeros(header.size, np.int64)
    tables = [words]
    size = header.size
    record = header.over(words)
    for name, value in values.items():
        field = header.fields[name]
        if field.kind == "table":
            words[field.offset] = size
            tables.append(
                value if isinstance(value, np.ndarray) else np.array(_flat(value), np.int64)
            )
            size += tables[-1].size
        else:
            setattr(record, name, value)
    return np.concatenate(tables)


# -- loops over records ----------------------------------------------------------------------------
def kernel(function: F) -> F:
    """A loop, compiled for the types that it is annotated with."""
    loop: F = _loop(function)
    return loop


def ready(loop: F) -> F:
    """A loop as machine code, for who calls it so often that a call of Python's counts."""
    return getattr(loop, "dispatcher", loop)


def inline_kernel(function: F) -> F:
    """A loop that becomes part of the one that calls it, where a call would cost too much."""
    loop: F = _loop(function, inline=True)
    return loop


class Separate(Protocol[P, R_co]):
    """A loop that is called at its address, which is given before its arguments."""

    def __call__(self, address: int, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def address(self) -> int: ...


def separate_kernel(function: Callable[P, R]) -> Separate[P, R]:
    """A loop that few queries need: it is compiled by itself, once somebody asks for its address.

    Whoever calls it has that from Python, and gives it before the arguments.
    """
    loop: Any
    if INTERPRETED:
        loop = InterpretedSeparate(_in_python(function))
    else:
        loop = SeparateLoop(function, _declared(function))
        register_separate(loop)
    return loop  # type: ignore[no-any-return]


def method(function: F) -> F:
    """A method of a record that loops can call."""
    function.is_method = True  # type: ignore[attr-defined]
    return function


def _annotated(function: Callable[..., Any], owner: Any = None) -> tuple[list[Any], Any]:
    """What a loop is annotated to take, and to give."""
    names = {owner.__name__: owner} if owner else None
    hints = get_type_hints(function, localns=names, include_extras=True)
    result = hints.pop("return")
    return [owner, *hints.values()] if owner else [*hints.values()], result


def _declared(function: Callable[..., Any], owner: Any = None) -> Callable[[], Any]:
    """Finds the Numba types that a loop is annotated with, once somebody asks for them."""

    @cache
    def declared() -> Any:
        arguments, result = _annotated(function, owner)
        return numba_type(result)(*map(numba_type, arguments))

    return declared


def _loop(function: Callable[..., Any], owner: Any = None, inline: bool = False) -> Any:
    if INTERPRETED:
        return _in_python(function, owner)
    return Loop(function, _declared(function, owner), inline)


class InterpretedSeparate:
    """A separate loop in Python, which has no address and needs none."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, address: int, /, *arguments: Any) -> Any:
        return self._function(*arguments)

    def address(self) -> int:
        return 0


def _in_python(function: Callable[..., Any], owner: Any = None) -> Callable[..., Any]:
    """The function itself, which reckons in 64 bits as the compiled one does."""
    is_int = [hint is int for hint in _annotated(function, owner)[0]]

    @wraps(function)  # which also keeps the mark of a method
    def interpreted(*arguments: Any) -> Any:
        words = (np.int64(a) if i else a for a, i in zip(arguments, is_int, strict=True))
        return function(*words)

    return interpreted


def numba_type(hint: Any) -> Any:
    """The Numba type of what is annotated."""
    if get_origin(hint) is tuple:
        return types.Tuple([numba_type(each) for each in get_args(hint)])
    if get_origin(hint) is list:
        return types.List(numba_type(get_args(hint)[0]))
    if get_origin(hint) is Rows:
        return RowsType(get_args(hint)[0].type)
    if isinstance(hint, type) and issubclass(hint, Record):
        return hint.type
    return _PLAIN[hint]
