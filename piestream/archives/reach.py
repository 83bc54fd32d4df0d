"""How far a query looks beyond the rows of a match, and whether that is bounded at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace

from piestream.archives.row_reach import is_bounded, rows_around
from piestream.automata.endpoints import endpoint_orders
from piestream.expressions.typed import Expression, Previous, Until, Window, children
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import Constraint, Emit, Source, Symbol
from piestream.language.windows import all_windows
from piestream.plan.binding import Binding, query_ticks
from piestream.plan.past import PastColumn
from piestream.plan.program import Ticks

__all__ = [
    "KNOWN",
    "MOST_TICKS",
    "Reach",
    "absent_reach",
    "counted_rows",
    "earliest_symbols",
    "has_only",
    "is_local",
    "latches_of",
    "past_of",
    "reach_of",
    "window_and_absent",
]

#: Longer than this nothing is looked for.
MOST_TICKS = 1 << 62


#: More rows than these before a core may lie on many pages.
_FEW_ROWS = 16


@dataclass(frozen=True)
class Reach:
    """What a match and its report depend on, apart from the rows between its start and its report."""

    #: From the earliest start to the report, at most, and back to a run that may be bridged to the first.
    window: int
    rows: int  # of the partition before its start: the last one, those that predicates read, and what is counted
    ticks: int  # and those of so long before these
    max_gap: int | None  # longer silences end all, also what is bridged
    reads_the_past: bool
    is_bridged: bool = False
    absent: int = 0  # so long before a report what is absent may lie, as far as it counts
    #: The rows that decide whether UNTIL is true lie as far back as they may.
    latches: tuple[PastColumn, ...] = ()
    own_rows: int = 0  # rows of the partition before a core that a match there may have, or look at
    rows_behind: int = 0  # and behind it
    counted: int = 0  # so many of the rows before are there to count the events of what is absent

    @property
    def needs_last(self) -> bool:
        """Whether the last row before a core counts, whatever holds at its first one.

        It does where earlier rows are read, and where a run may count that ends at that first one.
        """
        return self.reads_the_past or self.is_bridged or self.absent > 0 or self.own_rows > 0

    @property
    def is_sought(self) -> bool:
        """Whether rows that are needed may be arbitrarily far from the cores."""
        return bool(self.latches or self.rows_behind) or self.counted > _FEW_ROWS

    @property
    def back(self) -> int:
        """How long before the first report of a core its own rows begin, at most."""
        return max(self.window, self.absent)

    def with_bridges(self, ticks: Ticks) -> Reach:
        """The same of intervals that may go on with runs which ended before."""
        bridges = [bridge for bridge in ticks.bridging if bridge is not None]
        if not bridges:
            return self
        longest = max(bridges)
        gap = None if self.max_gap is None else self.max_gap + longest
        return replace(
            self,
            window=self.window + longest,
            absent=self.absent + longest,
            max_gap=gap,
            is_bridged=True,
        )


#: What is known here of a query and of its parts: with anything else all rows are read.
KNOWN: dict[type, frozenset[str]] = {
    Query: frozenset({
        "symbols", "constraints", "within", "returns", "streams", "partition_by", "emit", "where",
        "rows", "limits", "origin", "names", "windows", "absences",
    }),
    Symbol: frozenset({
        "name", "predicate", "at_least", "at_most", "stream", "at_least_events", "at_most_events",
        "bridging",
    }),
    Source: frozenset({
        "name", "path", "order_by", "time_unit", "max_gap", "start", "end", "id", "known_at_start",
        "query", "sequence", "row_order", "silence",
    }),
    Constraint: frozenset({"x", "y", "relations", "distances"}),
}  # fmt: skip


def reach_of(query: Query, binding: Binding, options: RunOptions) -> Reach | None:
    """How far a query looks; None where its matches depend on rows that are far away.

    They do where nothing bounds how long an interval of a match lasts (a symbol without a window), or how
    many rows a match of a row pattern has. How long rows follow a match that waits for its end (EMIT ON
    BOTH) is seen where they are read, and so is which partitions end (``at_end``).
    """
    if query.is_combined or not _is_near(query):
        return None
    latches = latches_of(binding, options)
    past = past_of([column.node for column in binding.past if column not in latches])
    counted = counted_rows(query, query.symbols)
    if past is None or counted is None or (counted and latches):
        return None
    rows, length = past
    if query.rows is not None:
        before, behind = rows_around(query)
        if query.rows.within is None:
            window = 0  # what lies around the rows of one variable is counted in rows
        else:
            time = binding.time
            window = query.ticks(
                ("within",), query.within, time.nanoseconds_per_tick, time.needs_units
            )
        return Reach(
            window, rows, length, None, bool(binding.past), own_rows=before, rows_behind=behind
        )
    ticks = query_ticks(query, binding.time)
    window, absent = window_and_absent(ticks)
    found = Reach(
        window,
        1 + rows + counted,
        length,
        ticks.max_gap,
        bool(binding.past),
        absent=absent,
        latches=latches,
        counted=counted,
    ).with_bridges(ticks)
    return None if found.back > MOST_TICKS else found


def window_and_absent(ticks: Ticks) -> tuple[int, int]:
    """How long before its report a match begins, and how long before absent symbols count, at most."""
    window = max(kept.length for s, kept in enumerate(ticks.kept) if s not in ticks.absent)
    return window, absent_reach(ticks)


def absent_reach(ticks: Ticks) -> int:
    """How long before a report absent symbols count: 0 where there are none.

    What is absent has ended no longer ago than it is kept. A run of it that began long before that is
    seen to begin where reading does: it satisfies the same lengths and distances if these are shorter.
    """
    kept = [ticks.kept[s].length for s in ticks.absent]
    lengths = [
        abs(length) for groups in ticks.absent_distances for group in groups for length in group
    ]
    for s in ticks.absent:
        lengths += [
            length for length in (ticks.at_least[s], ticks.at_most[s]) if length is not None
        ]
    return max(kept) + max(lengths, default=0) + 1 if kept else 0


def counted_rows(query: Query, symbols: Iterable[Symbol]) -> int | None:
    """How many events before a row count of some symbols, as far as these are absent; None: it is not bounded.

    A run has as many events as are asked for, or more than may be, if it has them among as many rows before.
    With bridges these need not follow each other.
    """
    absent = {symbol.name for symbol in query.symbols} - {symbol.name for symbol in query.present}
    found = 0
    for symbol in symbols:
        least, most = symbol.at_least_events, symbol.at_most_events
        if symbol.name not in absent or (least, most) == (None, None):
            continue
        if symbol.bridging is not None:
            return None
        found = max(found, least or 0, (most or 0) + 1)
    return found


def latches_of(binding: Binding, options: RunOptions) -> tuple[PastColumn, ...]:
    """The UNTIL of predicates, if single rows decide both of its sides.

    Not where one of two rows does not count, and where it reads earlier rows itself.
    """
    if binding.query.rows is not None or options.ties != "error":
        return ()
    read = {id(child) for column in binding.past for child in children(column.node)}
    return tuple(
        column
        for column in binding.past
        if isinstance(column.node, Until)
        and id(column.node) not in read
        and _needed(column.node.start) == _needed(column.node.stop) == (0, 0)
    )


def earliest_symbols(query: Query) -> list[Symbol]:
    """Symbols one of which starts first in every match: of the others another one always starts no later.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x, b AS y, c AS z PATTERN a overlaps b AND c inside b WITHIN 9")
    >>> [symbol.name for symbol in earliest_symbols(query)]
    ['a']
    """
    place = {symbol.name: number for number, symbol in enumerate(query.symbols)}
    pairs = [(place[c.x], place[c.y], c.relations) for c in query.constraints]
    starts = endpoint_orders(len(query.symbols), pairs)[::2, ::2] > 0  # not later
    return [
        symbol
        for x, symbol in enumerate(query.symbols)
        if not any(starts[y, x] and (y < x or not starts[x, y]) for y in place.values() if y != x)
    ]


def is_local(query: Query, options: RunOptions) -> bool:
    """Whether a match depends on nothing but the rows of its window, but for what predicates read."""
    if query.emit is Emit.BOTH or options.at_end != "open":
        return False
    if query.rows is not None and (query.rows.within is None or any(rows_around(query))):
        return False
    return _is_near(query)


def _is_near(query: Query) -> bool:
    """Whether it is bounded how far from a match rows lie on which it depends, up to its report."""
    if query.rows is not None:
        return is_bounded(query) and _is_known(query)
    names = {symbol.name for symbol in query.present}
    windows = all_windows(names, query.within, query.windows)
    return names == {window.symbol for window, _ in windows} and _is_known(query)


def _is_known(query: Query) -> bool:
    """Whether there is nothing in a query but what is known here."""
    constraints = [*query.constraints, *(c for one in query.absences for c in one.constraints)]
    parts = [query, *query.symbols, *query.streams, *constraints]
    return all(has_only(part, KNOWN[type(part)]) for part in parts)


def has_only(part: object, known: frozenset[str]) -> bool:
    """Whether fields of a part that are not known have their defaults."""
    assert is_dataclass(part)
    for field in fields(part):
        if field.name not in known:
            value = getattr(part, field.name)
            if field.default is MISSING or value != field.default:
                return False
    return True


def past_of(nodes: Iterable[Expression]) -> tuple[int, int] | None:
    """How many rows before its own predicates read, and how long before; None: it is not bounded.

    Lengths in events and in ticks are not bounded together: a row before a window of time may be
    anywhere.
    """
    rows = ticks = 0
    for node in nodes:
        found = _needed(node)
        if found is None:
            return None
        rows, ticks = max(rows, found[0]), max(ticks, found[1])
    return None if rows and ticks else (rows, ticks)


def _needed(expression: Expression) -> tuple[int, int] | None:
    if isinstance(expression, Until):
        return None
    rows = ticks = 0
    for child in children(expression):
        below = _needed(child)
        if below is None:
            return None
        rows, ticks = max(rows, below[0]), max(ticks, below[1])
    match expression:
        case Previous(events=events):
            rows += events
        case Window(length=None):
            return None
        case Window(length=int(length), of_events=of_events):
            rows, ticks = (rows + length, ticks) if of_events else (rows, ticks + length)
    return rows, ticks
