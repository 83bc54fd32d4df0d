"""The options of runs and sessions: each is declared once, with its default and its values.

There is a class of options for each kind of input, and beside it the keywords of public functions
as a `TypedDict`, which type checkers and editors read.

========================== =====================================
class                      is for
========================== =====================================
`OrderOptions`             every input
`ArchiveOptions`           sessions and frames, of queries that read archives besides
`SessionOptions`           sessions
`BoundedOptions`           inputs that end: all but streaming Spark frames
`RunOptions`               frames and lists of events
`FileOptions`              files
`SparkOptions`             Spark frames, bounded or streaming
`SparkBoundedOptions`      bounded Spark frames
`SparkStreamOptions`       streaming Spark frames
========================== =====================================

A new option is a field here, a keyword here, and the place that acts on it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypedDict,
    get_args,
)

from piestream.expressions.durations import DurationLike, as_duration
from piestream.language.live_plan import LivePlan, Order

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "AnyKeywords",
    "ArchiveKeywords",
    "ArchiveOptions",
    "AtEnd",
    "BoundedKeywords",
    "BoundedOptions",
    "FileKeywords",
    "FileOptions",
    "OnLate",
    "OrderKeywords",
    "OrderOptions",
    "Partitioning",
    "RunKeywords",
    "RunOptions",
    "SessionKeywords",
    "SessionOptions",
    "SparkBoundedOptions",
    "SparkKeywords",
    "SparkOptions",
    "SparkStreamOptions",
    "Ties",
    "check_archive_options",
    "help_of",
]

Ties = Literal["error", "first", "last"]
OnLate = Literal["error", "drop"]
Partitioning = Literal["bucket", "key"]
AtEnd = Literal["open", "close"]


def _about(
    help: str,
    *,
    values: Any = None,
    check: Callable[[Any], None] | None = None,
    elsewhere: str | None = None,
) -> dict[str, Any]:
    """The metadata of an option's field; its ``help`` is shown by the command line too.

    ``values`` is the Literal of what it may be; ``check`` raises an error for any other value that
    it may not have. ``elsewhere`` is the error where an input does not take the option; left out,
    the error names the inputs that do.
    """
    return {"help": help, "values": get_args(values), "check": check, "elsewhere": elsewhere}


def _check_lateness(value: DurationLike) -> None:
    as_duration(value, "the lateness")


def _check_recover(value: bool) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"recover is True or False, not {value!r}")


#: More than a machine has cores for; each takes memory.
_MOST_THREADS = 1000


def _check_threads(value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_THREADS:
        raise ValueError(f"threads is a number from 1 to {_MOST_THREADS}, not {value!r}")


def _check_limit(value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"limit is a number of rows, not {value!r}")


def _check_delimiter(value: str) -> None:
    if len(value.encode()) != 1 or value in '"\r\n':
        raise ValueError(f"a delimiter is one character like ; or a tab, not {value!r}")


def _check_null(value: str | Sequence[str]) -> None:
    words = [value] if isinstance(value, str) else value
    if not words or not all(isinstance(word, str) and word for word in words):
        raise ValueError(f"null is a word for what is missing, or a list of words, not {value!r}")


def _check_encoding(value: str) -> None:
    try:
        if not codecs.lookup(value)._is_text_encoding:
            raise LookupError
    except (LookupError, TypeError):
        raise ValueError(
            f"there is no encoding {value!r}; some are utf-8, latin-1, cp1252 and utf-16"
        ) from None


def _check_types(value: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"types is a mapping of columns to types, not {value!r}")


def _check_archives(value: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"archives is a mapping of names of streams to archives, not {value!r}")


def _check_plan(value: LivePlan | Order) -> None:
    if not isinstance(value, LivePlan):
        LivePlan(value)


def _check_buckets(value: int) -> None:
    if value < 1:
        raise ValueError(f"buckets is {value}; it must be at least 1")


def _check_dropped(value: OnLate) -> None:
    if value != "drop":
        raise ValueError("on a Spark stream late rows are dropped and counted: on_late is 'drop'")


@dataclass(frozen=True, kw_only=True)
class OrderOptions:
    """What is done with events of the same time, and with events that come late.

    >>> OrderOptions(ties="firts")
    Traceback (most recent call last):
    ValueError: ties is one of 'error', 'first', 'last', not 'firts'
    """

    #: In errors: who takes these options, and how an input differs that takes others.
    whose: ClassVar[str] = "every input"
    this: ClassVar[str] = "is none"

    ties: Ties = field(
        default="error", metadata=_about("Events of one partition with the same time.", values=Ties)
    )
    #: None is not given: a bounded input is sorted, and a stream has to be in order.
    lateness: DurationLike | None = field(
        default=None,
        metadata=_about(
            "Events may be out of order by this much: 5s, 300ms, or a number of ticks of integers.",
            check=_check_lateness,
        ),
    )
    on_late: OnLate = field(
        default="error",
        metadata=_about("Events that are later than the lateness allows.", values=OnLate),
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is None and option.default is None:
                continue
            values, check = option.metadata["values"], option.metadata["check"]
            if check is not None:
                check(value)
            elif values and value not in values:
                allowed = ", ".join(map(repr, values))
                raise ValueError(f"{option.name} is one of {allowed}, not {value!r}")

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Self:
        """The options that keywords give; None is an option that is not given.

        >>> RunOptions.of({"ties": "last", "threads": None}).ties
        'last'
        >>> RunOptions.of({"buckets": 8})
        Traceback (most recent call last):
        TypeError: buckets is an option of Spark frames; this is none
        """
        given = {name: value for name, value in keywords.items() if value is not None}
        for name in given:
            if name not in cls.__dataclass_fields__:
                owner, option = _declared(name)
                elsewhere = option.metadata["elsewhere"]
                raise TypeError(
                    elsewhere or f"{name} is an option of {owner.whose}; this {cls.this}"
                )
        return cls(**given)


_FIELDS = {option.name: option for option in fields(OrderOptions)}


@dataclass(frozen=True, kw_only=True)
class ArchiveOptions(OrderOptions):
    """How a query over live streams and archives finds its archives, and goes about it."""

    whose = "sessions and frames"

    archives: Mapping[str, Any] | None = field(
        default=None,
        metadata=_about(
            "The archives of ARCHIVE streams, by the names of these: archives or their paths.",
            check=_check_archives,
            elsewhere="archives are for sessions and frames",
        ),
    )
    plan: LivePlan | Order = field(
        default="auto",
        metadata=_about(
            "How a query goes about streams and archives: auto, eager, live-first, archive-first.",
            check=_check_plan,
            elsewhere="a plan is for sessions and frames",
        ),
    )

    @property
    def live_plan(self) -> LivePlan:
        """The plan as a value."""
        return self.plan if isinstance(self.plan, LivePlan) else LivePlan(self.plan)


def check_archive_options(options: Mapping[str, Any], reads_archives: bool) -> None:
    """Refuse what is for ARCHIVE streams where a query reads none of them.

    >>> check_archive_options({"plan": "eager"}, reads_archives=False)
    Traceback (most recent call last):
    TypeError: plan is for a query that reads ARCHIVE streams, FROM ARCHIVE 'path', and this reads none
    """
    given = ArchiveOptions.of({name: options.get(name) for name in ("archives", "plan")})
    for name, is_given in (("archives", given.archives), ("plan", given.plan != "auto")):
        if is_given and not reads_archives:
            raise TypeError(
                f"{name} {'are' if name == 'archives' else 'is'} for a query that reads ARCHIVE "
                "streams, FROM ARCHIVE 'path', and this reads none"
            )


@dataclass(frozen=True, kw_only=True)
class SessionOptions(ArchiveOptions):
    """How a session goes on."""

    whose = "sessions"

    recover: bool = field(
        default=True,
        metadata=_about(
            "Whether an interrupted call is undone, which takes a copy of the state.",
            check=_check_recover,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class BoundedOptions(OrderOptions):
    """What is done where an input ends."""

    whose = "inputs that end"

    at_end: AtEnd = field(
        default="open",
        metadata=_about(
            "What is open at the end stays so, or ends at its partition's last event: close.",
            values=AtEnd,
        ),
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(BoundedOptions, ArchiveOptions):
    """How frames and lists of events are worked on."""

    whose = "frames"

    threads: int | None = field(
        default=None,
        metadata=_about(
            "How many threads work on the partitions of a large frame; one for each core.",
            check=_check_threads,
            elsewhere="threads is no option for a Spark frame: Spark shares out the work",
        ),
    )
    limit: int | None = field(
        default=None,
        metadata=_about(
            "Stop once there are so many rows.",
            check=_check_limit,
            elsewhere="limit is no option for a Spark frame: take .limit(rows) of the result",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(RunOptions):
    """How files are read and worked on."""

    whose = "files"

    delimiter: str | None = field(
        default=None,
        metadata=_about(
            "What separates the columns of CSV, if not a comma: ';', '|', or tab.",
            check=_check_delimiter,
            elsewhere="a delimiter is for the CSV files that FROM names, not for a frame",
        ),
    )
    decimal_comma: bool | None = field(
        default=None,
        metadata=_about(
            "Whether numbers of CSV are written like 9,5.",
            elsewhere="decimal commas are for the CSV files that FROM names, not for a frame",
        ),
    )
    null: str | Sequence[str] | None = field(
        default=None,
        metadata=_about(
            "A word of CSV that stands for a missing value, like NA.",
            check=_check_null,
            elsewhere="words for missing values are for the CSV files that FROM names, not for a "
            "frame",
        ),
    )
    encoding: str | None = field(
        default=None,
        metadata=_about(
            "What text is written in, if not UTF-8: latin-1, cp1252, utf-16.",
            check=_check_encoding,
            elsewhere="an encoding is for the text files that FROM names, not for a frame",
        ),
    )
    types: Mapping[str, Any] | None = field(
        default=None,
        metadata=_about(
            "The types of columns of CSV or NDJSON: int, float, bool, text, date, datetime; the last "
            "two with a format: date:%d/%m/%Y. Of a date and a time in two columns: "
            "when=datetime(Date,Time).",
            check=_check_types,
            elsewhere="types are for the columns of the text files that FROM names, not for a frame",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SparkOptions(OrderOptions):
    """How Spark frames are worked on, whether they are bounded or streaming."""

    whose = "Spark frames"

    #: On two cores 16 are a little quicker than 32, and 64 a tenth slower; there should be more
    #: than the cores that will ever work on one query.
    buckets: int = field(
        default=32,
        metadata=_about("How many buckets the partitions are hashed to.", check=_check_buckets),
    )


@dataclass(frozen=True, kw_only=True)
class SparkBoundedOptions(BoundedOptions, SparkOptions):
    """How bounded Spark frames are worked on. They are sorted, so nothing in them is late."""

    whose = "a bounded Spark frame"
    this = "one is bounded"

    slices: int | None = field(
        default=None,
        metadata=_about(
            "How many slices of time share out the work on a query without PARTITION BY."
        ),
    )


@dataclass(frozen=True, kw_only=True)
class SparkStreamOptions(SparkOptions):
    """How streaming Spark frames are worked on.

    Sources that deliver at least once repeat rows, so the first of two with the same time stays.
    """

    whose = "a streaming Spark frame"
    this = "one is streaming"

    ties: Ties = field(default="first", metadata=_FIELDS["ties"].metadata)
    on_late: OnLate = field(
        default="drop", metadata={**_FIELDS["on_late"].metadata, "check": _check_dropped}
    )
    partitioning: Partitioning = field(
        default="bucket",
        metadata=_about("A state for each bucket, or for each key.", values=Partitioning),
    )
    metrics: str = field(
        default="piestream", metadata=_about("The name of the metrics in the query's progress.")
    )


class OrderKeywords(TypedDict, total=False):
    """The keywords of `OrderOptions`."""

    ties: Ties | None
    lateness: DurationLike | None
    on_late: OnLate | None


class ArchiveKeywords(OrderKeywords, total=False):
    """The keywords of `ArchiveOptions`."""

    archives: Mapping[str, Any] | None
    plan: LivePlan | Order | None


class SessionKeywords(ArchiveKeywords, total=False):
    """The keywords of `SessionOptions`."""

    recover: bool | None


class BoundedKeywords(OrderKeywords, total=False):
    """The keywords of `BoundedOptions`."""

    at_end: AtEnd | None


class RunKeywords(BoundedKeywords, ArchiveKeywords, total=False):
    """The keywords of `RunOptions`."""

    threads: int | None
    limit: int | None


class FileKeywords(RunKeywords, total=False):
    """The keywords of `FileOptions`."""

    delimiter: str | None
    decimal_comma: bool | None
    null: str | Sequence[str] | None
    encoding: str | None
    types: Mapping[str, Any] | None


class SparkKeywords(BoundedKeywords, total=False):
    """The keywords of `SparkBoundedOptions` and `SparkStreamOptions`."""

    buckets: int | None
    slices: int | None
    partitioning: Partitioning | None
    metrics: str | None


class AnyKeywords(FileKeywords, SparkKeywords, total=False):
    """The keywords of every input."""


def _declared(name: str) -> tuple[type[OrderOptions], Field[Any]]:
    """The class that declares an option, and the option."""
    for kind in (SessionOptions, FileOptions, SparkBoundedOptions, SparkStreamOptions):
        for owner in reversed(kind.__mro__):
            for option in fields(owner) if issubclass(owner, OrderOptions) else ():
                if option.name == name:
                    return owner, option
    raise TypeError(f"there is no option {name}")


def help_of(kind: type[OrderOptions], name: str) -> str:
    """What an option is, in a sentence.

    >>> help_of(SparkOptions, "buckets")
    'How many buckets the partitions are hashed to.'
    """
    return str(kind.__dataclass_fields__[name].metadata["help"])
