"""The canonical text of a query: ``parse(str(query)) == query``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from piestream.expressions import canonical
from piestream.expressions.predicate import EVERY_INTERVAL
from piestream.expressions.tokens import is_plain_name, quoted
from piestream.language.absences import Absence
from piestream.language.distances import distance_texts
from piestream.language.emission import limits_text
from piestream.language.lets import names_in
from piestream.language.model import Query
from piestream.language.parts import (
    Aggregate,
    Calculated,
    Constraint,
    DurationOf,
    Emit,
    Endpoint,
    Instant,
    RelationOf,
    Return,
    Silence,
    Source,
    Symbol,
    Value,
    name_of_archive,
)
from piestream.language.windows import windows_text
from piestream.relations import ANY, inverse, names, relations_named, said

__all__ = [
    "absence_text",
    "alias_of",
    "canonical_text",
    "constraint_text",
    "constraint_texts",
    "default_returns",
    "item_text",
    "path_text",
    "silence_text",
]

#: The name of the stream in FROM when a query names none.
UNNAMED_STREAM = "stream"


def canonical_text(query: Query) -> str:
    """The query as text: the clauses in one order, defaults left out.

    >>> import piestream as ps
    >>> query = ps.query("DEFINE a AS (x>1) WITHIN 120 s PATTERN a FROM s RETURN a.ts, a.te")
    >>> print(canonical_text(query))
    FROM s
    DEFINE a AS x > 1
    PATTERN a
    WITHIN 2 min
    """
    if query.rows is not None:
        from piestream.language.row_printer import row_query_text

        return row_query_text(query)
    lines = [_streams(query), *_lets(query), _define(query), _pattern(query)]
    lines.append(f"WITHIN {windows_text(query.within, query.windows, name)}")
    if query.where is not None:
        lines.append(f"WHERE {query.where}")
    if query.emit is not Emit.TRIGGER:
        lines.append(f"EMIT ON {query.emit.value}")
    lines += limits_text(query.limits, [name(symbol) for symbol in query.limits.once_per])
    if query.returns != default_returns(query.present):
        lines.append("RETURN " + ", ".join(_return(item) for item in query.returns))
    return "\n".join(lines)


def default_returns(symbols: tuple[Symbol, ...]) -> tuple[Return, ...]:
    """Every symbol's ts and te: what RETURN is when it is left out."""
    return tuple(
        Endpoint(symbol.name, which, f"{symbol.name}_{which}")
        for symbol in symbols
        for which in ("ts", "te")
    )


def alias_of(function: str, *operands: str | None) -> str:
    """The name of a RETURN item that was given none.

    >>> alias_of("AVG", "s", "speed")
    'avg_s_speed'
    """
    return "_".join([function.lower(), *(operand for operand in operands if operand)])


def name(word: str) -> str:
    """A name as it must be written: in quotes if it could mean anything else."""
    reads_as_relation = relations_named(word) is not None or word.lower() == "by"
    return word if is_plain_name(word) and not reads_as_relation else quoted(word)


def _streams(query: Query) -> str:
    streams = [stream for stream in query.streams if stream.silence is None]
    partition = ""
    if query.partition_by:
        partition = " PARTITION BY " + ", ".join(name(column) for column in query.partition_by)
    if len(streams) == 1:
        (stream,) = streams
        is_named = stream.is_ready_made
        return f"FROM {_head(stream, is_named)}{partition}{_order(stream)}"
    parts = [f"{_head(stream, True)}{_order(stream)}" for stream in streams]
    return "FROM " + "\nWITH ".join(parts) + partition.replace(" ", "\n", 1)


def _head(stream: Source, is_named: bool) -> str:
    """A stream, by its name, its path or its query."""
    own = name(stream.name or UNNAMED_STREAM)
    if stream.query is not None:
        text = "(" + canonical_text(stream.query).replace("\n", "\n  ") + ")"
    elif stream.path is not None:
        text = path_text(stream)
        is_named = is_named and not stream.archive
    else:
        return own + _endpoints(stream)
    return text + (f" AS {own}" if is_named else "") + _endpoints(stream)


def path_text(stream: Source) -> str:
    """The path of a stream's files, or of its archive, which has a name that may differ from it."""
    assert stream.path is not None
    text = "'" + stream.path.replace("'", "''") + "'"
    if not stream.archive:
        return text
    own = stream.name or UNNAMED_STREAM
    return f"ARCHIVE {text}" + ("" if own == name_of_archive(stream.path) else f" AS {name(own)}")


def _endpoints(stream: Source) -> str:
    if stream.start is None or stream.end is None:
        return ""
    text = f" FROM {name(stream.start)} TO {name(stream.end)}"
    text += f" UNIT {stream.time_unit}" if stream.time_unit else ""
    text += f" ID {name(stream.id)}" if stream.id is not None else ""
    return text + (" KNOWN AT START" if stream.known_at_start else "")


def order_text(stream: Source) -> str:
    """What stands in ORDER BY.

    >>> order_text(Source("trades", order_by="ts", sequence="row"))
    'ts, "row"'
    """
    text = name(str(stream.order_by))
    text += f" UNIT {stream.time_unit}" if stream.time_unit else ""
    if stream.row_order:
        return f"{text}, ROW"
    if stream.sequence is None:
        return text
    is_word = stream.sequence.upper() == "ROW"
    return f"{text}, " + (f'"{stream.sequence}"' if is_word else name(stream.sequence))


def _order(stream: Source) -> str:
    """The clauses that belong to a stream of events."""
    text = ""
    if stream.order_by is not None:
        text += f" ORDER BY {order_text(stream)}"
    if stream.max_gap is not None:
        text += f" MAX GAP {stream.max_gap}"
    return text


def _predicate(query: Query, symbol: Symbol) -> str:
    """A predicate, whose columns are qualified if they are not the first stream's."""
    stream = query.streams[symbol.stream]
    if stream.silence is not None:
        return silence_text(query, stream.silence)
    own = stream.name or UNNAMED_STREAM
    if stream.is_ready_made and symbol.predicate == EVERY_INTERVAL:
        return name(own)
    return symbol.predicate.with_names(own if symbol.stream else None)


def silence_text(query: Query, silence: Silence) -> str:
    """How the silences of a stream are written; of the first stream it needs no name.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE quiet AS SILENCE LONGER THAN 30 s PATTERN quiet WITHIN 1 h")
    >>> silence_text(query, query.stream_of("quiet").silence)
    'SILENCE LONGER THAN 30 s'
    """
    of = query.streams[silence.of].name or UNNAMED_STREAM
    named = f" OF {name(of)}" if silence.of else ""
    return f"SILENCE{named} LONGER THAN {silence.longer_than}"


def _lets(query: Query) -> list[str]:
    """The expressions that predicates use by a name, as one clause, or as none."""
    written: dict[str, str] = {}
    for symbol in query.symbols:
        own = (query.streams[symbol.stream].name or UNNAMED_STREAM) if symbol.stream else None
        tree = symbol.predicate.tree
        for let, (value, *_) in names_in([] if tree is None else [tree]).items():
            text = canonical.canonical_text(value, own, by_name=True)
            written.setdefault(let, f"{name(let)} = {text}")
    return ["LET " + ",\n    ".join(written.values())] if written else []


def _define(query: Query) -> str:
    items = []
    for symbol in query.symbols:
        bounds = ""
        least, most = symbol.at_least, symbol.at_most
        if least and most and not (least.in_ticks and most.in_ticks):
            bounds = f" BETWEEN {least} AND {most}"
        else:
            # Bare ticks after BETWEEN could be read as a part of the predicate.
            bounds += f" AT LEAST {least}" if least else ""
            bounds += f" AT MOST {most}" if most else ""
        predicate = _predicate(query, symbol)
        bounds += _event_bounds(symbol)
        if symbol.bridging is not None:
            bounds += f" BRIDGING {symbol.bridging}"
        items.append(f"{name(symbol.name)} AS {predicate}{bounds}")
    return "DEFINE " + ",\n       ".join(items)


def _event_bounds(symbol: Symbol) -> str:
    least, most = symbol.at_least_events, symbol.at_most_events
    if least is not None and most is not None:
        return f" BETWEEN {least} AND {most} EVENTS"
    if least is not None:
        return f" AT LEAST {least} EVENTS"
    return "" if most is None else f" AT MOST {most} EVENTS"


def _pattern(query: Query) -> str:
    conjuncts = [text for c in query.constraints for text in constraint_texts(c, name)]
    conjuncts = conjuncts or [name(query.present[0].name)]
    conjuncts += (absence_text(absence, name, True) for absence in query.absences)
    return "PATTERN " + "\n    AND ".join(conjuncts)


def constraint_texts(
    constraint: Constraint, name: Callable[[str], str] = str, is_canonical: bool = True
) -> Iterator[str]:
    """What a query writes for a pair: its relations, unless all are allowed, and its distances.

    >>> from piestream.relations import Relation
    >>> list(constraint_texts(Constraint("a", "b", Relation.MEETS | Relation.BEFORE)))
    ['a before; meets b']
    """
    if constraint.relations != ANY or not constraint.distances:
        relations = constraint.relations
        allowed = "; ".join(names(relations)) if is_canonical else said(relations)
        yield f"{name(constraint.x)} {allowed} {name(constraint.y)}"
    yield from distance_texts(constraint.distances, name)


def absence_text(
    absence: Absence, name: Callable[[str], str] = str, is_canonical: bool = False
) -> str:
    """What a query writes for an absence, mostly to be read by people.

    >>> from piestream.relations import SETS
    >>> absence_text(Absence("c", (Constraint("a", "c", SETS["intersects"]),)))
    'NOT (c intersects a)'
    """
    turned = (
        c if c.x == absence.symbol else Constraint(c.y, c.x, inverse(c.relations), c.distances)
        for c in absence.constraints
    )
    parts = (text for c in turned for text in constraint_texts(c, name, is_canonical))
    return f"NOT ({' AND '.join(parts)})"


def constraint_text(constraint: Constraint) -> str:
    """A pair's relations and distances in one line, to be read by people.

    >>> from piestream.relations import SETS
    >>> constraint_text(Constraint("a", "b", SETS["intersects"]))
    'a intersects b'
    """
    return " AND ".join(constraint_texts(constraint, is_canonical=False))


def item_text(item: Return) -> str:
    """What a match gives, without the name that its column has.

    >>> item_text(Endpoint("s", "ts", "begin"))
    's.ts'
    """
    return _text_and_default(item)[0]


def _text_and_default(item: Return) -> tuple[str, str]:
    """An item of RETURN without its name, and the name that it has by default."""
    match item:
        case Aggregate(function, symbol, column):
            operand = name(symbol) + (f".{name(column)}" if column is not None else "")
            return f"{function}({operand})", alias_of(function, symbol, column)
        case Endpoint(symbol, which):
            return f"{name(symbol)}.{which}", f"{symbol}_{which}"
        case Instant(symbol, which):
            return f"INSTANT({name(symbol)}.{which})", ""  # no query writes it
        case DurationOf(symbol):
            return f"DURATION({name(symbol)})", alias_of("DURATION", symbol)
        case Value(symbol, column):
            return f"{name(symbol)}.{name(column)}", f"{symbol}_{column}"
        case RelationOf(x, y):
            return f"RELATION({name(x)}, {name(y)})", alias_of("RELATION", x, y)
        case Calculated(expression):
            return str(expression), ""  # it has no name by default


def _return(item: Return) -> str:
    text, default = _text_and_default(item)
    return text if item.alias == default else f"{text} AS {name(item.alias)}"
