"""The canonical text of a row pattern: ``FROM t MATCH_RECOGNIZE ( … )``."""

from __future__ import annotations

from piestream.expressions.predicate import EVERY_INTERVAL
from piestream.language.model import Query
from piestream.language.printer import UNNAMED_STREAM, name, order_text
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_patterns import EmptyMatches, MatchMode, RowPattern, SkipMode

__all__ = ["row_query_text"]


def row_query_text(query: Query) -> str:
    """The query as text: the clauses in the order of the standard, defaults left out.

    >>> import piestream as ps
    >>> print(ps.query("FROM t MATCH_RECOGNIZE (PATTERN ((A)+) DEFINE A AS (x>1) "
    ...                "MEASURES a.x + 1 AS y, COUNT(*) AS n SUBSET a = (A))"))
    FROM t MATCH_RECOGNIZE (
      MEASURES LAST(a.x) + 1 AS y, COUNT(*) AS n
      PATTERN (A+)
      SUBSET a = (A)
      DEFINE A AS x > 1
    )
    """
    rows = query.rows
    assert rows is not None
    stream = query.streams[0]
    head = name(stream.name or UNNAMED_STREAM)
    if stream.path is not None:
        head = "'" + stream.path.replace("'", "''") + "'"
    lines = []
    if query.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(name, query.partition_by)))
    if stream.order_by is not None:
        lines.append(f"ORDER BY {order_text(stream)}")
    if rows.measures:
        measures = (f"{m.expression} AS {name(m.alias)}" for m in rows.measures)
        lines.append("MEASURES " + ", ".join(measures))
    lines += _output(rows)
    lines.append(f"PATTERN ({row_pattern_text(rows.pattern)})")
    if rows.within is not None:
        lines.append(f"WITHIN {rows.within}")
    if rows.subsets:
        subsets = (f"{name(s)} = ({', '.join(map(name, of))})" for s, of in rows.subsets)
        lines.append("SUBSET " + ", ".join(subsets))
    conditions = [
        f"{name(symbol.name)} AS {condition.text if condition else symbol.predicate}"
        for symbol in query.symbols[: len(rows.variables)]
        if (condition := rows.condition(symbol.name)) or symbol.predicate is not EVERY_INTERVAL
    ]
    lines.append("DEFINE " + ",\n         ".join(conditions))
    return f"FROM {head} MATCH_RECOGNIZE (\n  " + "\n  ".join(lines) + "\n)"


def _output(rows: RowPattern) -> list[str]:
    lines = []
    if rows.all_rows:
        empty = rows.empty_matches
        behind = "" if empty is EmptyMatches.SHOW else f" {empty.value}"
        lines.append(f"ALL ROWS PER MATCH{behind}")
    if rows.skip.variable is not None:
        lines.append(f"AFTER MATCH SKIP {rows.skip.mode.value} {name(rows.skip.variable)}")
    elif rows.skip.mode is not SkipMode.PAST_LAST_ROW:
        lines.append(f"AFTER MATCH SKIP {rows.skip.mode.value}")
    if rows.mode is not MatchMode.PREFERRED:
        lines.append(rows.mode.value)
    return lines
