"""Lengths of time as they are written: units, their spellings, the canonical text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context, Decimal
from typing import Union

from piestream.expressions.diagnostics import Diagnostic, QueryError, did_you_mean

__all__ = [
    "BY_CALENDAR",
    "CALENDAR",
    "NANOSECONDS",
    "UNITS",
    "UNIT_SPELLINGS",
    "Duration",
    "DurationLike",
    "as_duration",
    "duration_of",
    "event_count",
    "is_tick",
    "rewritten",
    "tick_length",
    "tick_unit",
    "unit_named",
]

#: Units that a calendar has and time has not.
CALENDAR = frozenset(["month", "months", "mon", "quarter", "quarters", "year", "years", "y", "yr"])
#: What is said where a unit is not known, and of those of a calendar.
UNITS = "the units are ns, us, ms, s, min, h, d, w"
BY_CALENDAR = "how long that is depends on the calendar: write days"

#: Nanoseconds in each unit of time, from the canonical name.
NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}


#: A duration with a unit is less than so many nanoseconds.
LONGEST_TIME = 2**63
_LONGEST = "106,751 d (292 years)"

#: A duration without a unit is less than so many ticks; a window of more ticks than there are
#: holds all.
MOST_TICKS = 2**80

#: Decimal numbers of any digits that a text may have.
_EXACT = Context(prec=1000)


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: nanoseconds if a unit was written, else a bare count of ticks."""

    amount: int
    in_ticks: bool = False

    def __str__(self) -> str:
        """The canonical text: the largest unit that divides; bare ticks as they are.

        >>> print(Duration(300_000_000_000))
        5 min
        """
        if self.in_ticks:
            return str(self.amount)
        if self.amount == 0:
            return "0 s"
        unit = next(u for u in reversed(NANOSECONDS) if self.amount % NANOSECONDS[u] == 0)
        return f"{self.amount // NANOSECONDS[unit]} {unit}"

    def ticks(
        self,
        nanoseconds_per_tick: int | None,
        what: str,
        needs_unit: bool = False,
        time: str | None = None,
    ) -> int:
        """The duration as a count of ticks of a time column, which ``time`` names.

        ``nanoseconds_per_tick`` is None for an integer column whose unit was not declared. Where
        the column holds dates or timestamps, ``needs_unit``: nobody counts their ticks, and only 0
        means the same in every unit.

        >>> Duration(5_000_000_000).ticks(1_000_000, "WITHIN")
        5000
        """
        if self.in_ticks:
            if needs_unit and self.amount:
                raise _without_unit(self.amount, nanoseconds_per_tick or 1, what)
            return self.amount
        if nanoseconds_per_tick is None:
            raise QueryError(
                (
                    Diagnostic(
                        None,
                        f"{what} is {self}, but the time column is an integer column "
                        "whose unit was not declared",
                        f"declare the unit of a tick with `ORDER BY {time or 'ts'} UNIT s`, "
                        "or write a bare number of ticks",
                    ),
                )
            )
        whole, rest = divmod(self.amount, nanoseconds_per_tick)
        if rest:
            raise QueryError(
                f"{what} is {self}, which is not a whole number of ticks: "
                f"one tick is {Duration(nanoseconds_per_tick)}"
            )
        return whole


def _without_unit(amount: int, nanoseconds_per_tick: int, what: str) -> QueryError:
    """The error for a bare number where the time column holds dates or timestamps."""
    lengths = {**NANOSECONDS, "w": 7 * NANOSECONDS["d"]}
    units = [name for name, length in lengths.items() if length % nanoseconds_per_tick == 0]
    usual = [name for name in ("s", "min", "h", "d", "w") if name in units][:4]
    examples = [f"{amount} {name}" for name in usual]
    hint = f"write {', '.join(examples[:-1])} or {examples[-1]}"
    if usual != units:
        hint += f"; the units are {', '.join(units)}"
    kind = "dates" if nanoseconds_per_tick == NANOSECONDS["d"] else "timestamps"
    message = f"{what} is {amount} without a unit, and the time column holds {kind}"
    return QueryError((Diagnostic(None, message, hint),))


#: Every way to write a unit, with its length in nanoseconds.
UNIT_SPELLINGS: dict[str, int] = {
    spelling: NANOSECONDS[unit] * count
    for unit, count, spellings in (
        ("ns", 1, "ns nanosecond nanoseconds"),
        ("us", 1, "us µs μs microsecond microseconds"),
        ("ms", 1, "ms msec millisecond milliseconds"),
        ("s", 1, "s sec secs second seconds"),
        ("min", 1, "m min mins minute minutes"),
        ("h", 1, "h hr hrs hour hours"),
        ("d", 1, "d day days"),
        ("d", 7, "w week weeks"),
    )
    for spelling in spellings.split()
}


def unit_named(word: str) -> int | None:
    """The nanoseconds of a unit, however it is spelt, or None.

    >>> unit_named("Minutes")
    60000000000
    """
    return UNIT_SPELLINGS.get(word.lower())


def tick_unit(written: str) -> str | None:
    """The canonical name of the unit of a time column's ticks: a unit, or so many of one. Or None.

    >>> tick_unit("Minutes"), tick_unit("20 milliseconds"), tick_unit("weeks")
    ('min', '20 ms', None)
    """
    known = _WRITTEN.fullmatch(f"1 {written}" if written.strip()[:1].isalpha() else written)
    if known is None or known[2] is None or unit_named(known[2]) is None:
        return None
    length = duration_of(known[1], known[2])
    if isinstance(length, str) or not is_tick(length):
        return None
    number, unit = str(length).split()
    if unit_named(written) is not None:  # one of the units themselves
        return unit if number == "1" else None
    return unit if number == "1" else f"{number} {unit}"


def is_tick(length: Duration) -> bool:
    """Whether a length can be that of a tick: clocks of microseconds must be able to tell it.

    >>> is_tick(Duration(20_000_000)), is_tick(Duration(1_500))
    (True, False)
    """
    nanoseconds = 0 if length.in_ticks else length.amount
    return nanoseconds > 0 and (nanoseconds % 1_000 == 0 or 1_000 % nanoseconds == 0)


def tick_length(unit: str) -> int:
    """The nanoseconds of a unit that `tick_unit` gave.

    >>> tick_length("ms"), tick_length("20 ms")
    (1000000, 20000000)
    """
    number, _, name = unit.rpartition(" ")
    return int(number or 1) * NANOSECONDS[name]


def duration_of(number: str, unit: str | None) -> Duration | str:
    """The duration of a number and a unit, or what is wrong with it.

    >>> duration_of("1.5", "s")
    Duration(amount=1500000000, in_ticks=False)
    """
    written = number if unit is None else f"{number} {unit}"
    amount = Decimal(number)
    too_long = f"{written} is longer than a duration can be"
    if unit is not None:
        too_long = f"{written} is longer than a 64-bit count of nanoseconds can say, {_LONGEST}"
    if amount and amount.adjusted() > 30:
        return too_long
    if unit is not None:
        amount = _EXACT.multiply(amount, Decimal(UNIT_SPELLINGS[unit.lower()]))
    if amount and (amount.adjusted() < 0 or amount != amount.to_integral_value()):
        if unit is None:
            return f"a duration without a unit counts ticks, and {number} is not a whole number"
        return f"{written} is not a whole number of nanoseconds"
    if amount >= (MOST_TICKS if unit is None else LONGEST_TIME):
        return too_long
    return Duration(int(amount), in_ticks=unit is None)


#: No interval has more events.
MOST_EVENTS = 2**53


def event_count(value: object, what: str) -> int:
    """A number of events, which is a whole number from 0 on.

    >>> event_count(3, "at_least_events")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_EVENTS:
        raise QueryError(f"{what} is a whole number of events, not {value!r}")
    return value


_PART = re.compile(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([^\W\d]+)")
_CLOCK = re.compile(r"\s*(\d{1,9})\s*:\s*([0-5]\d)\s*(?::\s*([0-5]\d)\s*)?")


def rewritten(text: str) -> str | None:
    """A duration in the style of SQL, of a clock, or of several parts, as it is written here.

    >>> rewritten("INTERVAL '30' SECOND"), rewritten("5m30s"), rewritten("1 month")
    ('30 s', '330 s', None)
    >>> rewritten("00:05:00")
    '5 min'
    """
    bare = re.sub(r"^\s*interval\b", "", text.replace("'", " "), flags=re.IGNORECASE).strip()
    clock = _CLOCK.fullmatch(bare)
    if clock is not None:
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return str(Duration(((hours * 60 + minutes) * 60 + seconds) * NANOSECONDS["s"]))
    if not re.fullmatch(f"({_PART.pattern})+", bare):
        return None
    nanoseconds = 0
    for number, unit in _PART.findall(bare):
        if unit_named(unit) is None:
            return None
        length = duration_of(number, unit)
        if isinstance(length, str):
            return None
        nanoseconds += length.amount
    return str(Duration(nanoseconds))


#: Characters of a duration.
_LONGEST_TEXT = 200

_WRITTEN = re.compile(r"\s*((?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\W\d]+)?\s*")


#: A duration as users give it: text (``"5 minutes"``), a timedelta, or an int that counts ticks.
DurationLike = Union[str, int, timedelta, Duration]


def as_duration(value: DurationLike, what: str = "the duration") -> Duration:
    """A duration from text (``"5 minutes"``), a timedelta, or an int that counts ticks.

    >>> as_duration("5s") == as_duration(timedelta(seconds=5)) == Duration(5_000_000_000)
    True
    """
    if isinstance(value, Duration):
        return value
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        shown = value[:_LONGEST_TEXT]
        raise QueryError(f"{what} is not a duration: '{shown}...' (write it like '5 minutes')")
    if isinstance(value, timedelta):
        microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        if microseconds < 0:
            raise QueryError(f"{what} is negative: {value}")
        if microseconds * 1_000 >= LONGEST_TIME:
            raise QueryError(
                f"{what}: {value} is longer than a 64-bit count of nanoseconds can say, {_LONGEST}"
            )
        return Duration(microseconds * 1_000)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise QueryError(
            f"{what} is a {type(value).__name__}; give text such as '5 minutes', "
            "a datetime.timedelta, or an int that counts ticks"
        )
    if isinstance(value, int):
        if value < 0:
            raise QueryError(f"{what} is negative")
        if value >= MOST_TICKS:
            raise QueryError(f"{what} is of more ticks than a duration can have")
        return Duration(value, in_ticks=True)
    match = _WRITTEN.fullmatch(value)
    if match is None:
        ours = rewritten(value)
        written, like = (ours, "as") if ours else ("5 minutes", "like")
        raise QueryError(f"{what} is not a duration: {value!r} (write it {like} {written!r})")
    number, unit = match.groups()
    if unit is not None and unit_named(unit) is None:
        near = did_you_mean(unit, UNIT_SPELLINGS) or UNITS
        if unit.lower() in CALENDAR:
            near = f"{BY_CALENDAR}; {UNITS}"
        raise QueryError(f"{what} has an unknown unit: {unit} ({near})")
    duration = duration_of(number, unit)
    if isinstance(duration, str):
        raise QueryError(f"{what}: {duration}")
    return duration
