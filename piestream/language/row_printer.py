"""The canonical text of a row pattern: ``FROM t MATCH_RECOGNIZE ( … )``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from piestream.expressions.predicate import EVERY_INTERVAL
from piestream.language.model import Query
from piestream.language.printer import UNNAMED_STREAM, name, order_text, path_text
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_patterns import EmptyMatches, MatchMode, RowPattern, SkipMode

__all__ = ["row_condition_text", "row_query_text"]


def row_query_text(
    query: Query, conditions: Mapping[str, str] | None = None, measures: Sequence[str] | None = None
) -> str:
    """The query as text: the clauses in the order of the standard, defaults left out.

    The text may have other conditions of some variables, and other measures.

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
        head = path_text(stream)
    lines = []
    if query.partition_by:
        lines.append("PARTITION BY " + ", ".join(map(name, query.partition_by)))
    if stream.order_by is not None:
        lines.append(f"ORDER BY {order_text(stream)}")
    if measures is None:
        measures = [f"{m.expression} AS {name(m.alias)}" for m in rows.measures]
    if measures:
        lines.append("MEASURES " + ", ".join(measures))
    lines += _output(rows)
    lines.append(f"PATTERN ({row_pattern_text(rows.pattern)})")
    if rows.within is not None:
        lines.append(f"WITHIN {rows.within}")
    if rows.subsets:
        subsets = (f"{name(s)} = ({', '.join(map(name, of))})" for s, of in rows.subsets)
        lines.append("SUBSET " + ", ".join(subsets))
    texts = {variable: row_condition_text(query, variable) for variable in rows.variables}
    texts.update(conditions or {})
    defined = [f"{name(variable)} AS {text}" for variable, text in texts.items() if text]
    lines.append("DEFINE " + ",\n         ".join(defined))
    return f"FROM {head} MATCH_RECOGNIZE (\n  " + "\n  ".join(lines) + "\n)"


def row_condition_text(query: Query, variable: str) -> str:
    """The condition of a variable; empty where it has none.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B) DEFINE B AS B.x > A.x)")
    >>> row_condition_text(query, "B"), row_condition_text(query, "A")
    ('LAST(B.x) > LAST(A.x)', '')
    """
    assert query.rows is not None
    condition = query.rows.condition(variable)
    if condition is not None:
        return condition.text
    predicate = query.symbol(variable).predicate
    return "" if predicate is EVERY_INTERVAL else str(predicate)


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
