"""Where the rows of each variable lie in a match of a row pattern: the measures that say it."""

from __future__ import annotations

from dataclasses import replace

from piestream.expressions.syntax import Column
from piestream.expressions.values import ValueExpression
from piestream.language.model import Query
from piestream.language.printer import name as written
from piestream.language.row_measures import item_text
from piestream.language.row_patterns import Measure, RowItem

__all__ = ["LAST_ROW", "endpoint_measures", "missing_measure", "with_endpoint_measures"]

#: What stands for a variable where the last row of the match is meant.
LAST_ROW = ("", "last")


def _wanted(query: Query) -> dict[tuple[str, str], RowItem]:
    """The item of each endpoint, and of the last row.

    A variable ends where the row behind its last one is, as intervals do.
    """
    assert query.rows is not None
    time = query.streams[0].order_by
    if time is None:
        raise query.fault(
            ("order_by",),
            "an export of matches needs the time column",
            "write ORDER BY and its name",
        )
    found: dict[tuple[str, str], RowItem] = {}
    for variable in query.rows.variables:
        found[variable, "ts"] = RowItem("FIRST", variable, time)
        found[variable, "te"] = RowItem("LAST", variable, time, shift=1)
    return {**found, LAST_ROW: RowItem("LAST", None, time)}


def endpoint_measures(query: Query) -> dict[tuple[str, str], str]:
    """The column of each endpoint that MEASURES gives, and of the last row.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1 "
    ...                  "MEASURES FIRST(A.ts) AS since)")
    >>> endpoint_measures(query)
    {('A', 'ts'): 'since'}
    """
    assert query.rows is not None
    if query.rows.all_rows:
        raise query.fault(
            ("all",), "an export takes a row for each match", "write ONE ROW PER MATCH"
        )
    given = {
        measure.items[0][1]: measure.alias
        for measure in reversed(query.rows.measures)
        if measure.expression.only_name is not None
    }
    return {end: given[item] for end, item in _wanted(query).items() if item in given}


def missing_measure(query: Query, end: tuple[str, str]) -> str:
    """What MEASURES would have to give for an endpoint.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 1 "
    ...                  "MEASURES FIRST(A.ts) AS since)")
    >>> missing_measure(query, ("A", "te"))
    'NEXT(LAST(A.ts), 1) AS A_te'
    """
    variable, which = end
    return f"{item_text(_wanted(query)[end])} AS {written(f'{variable}_{which}'.strip('_'))}"


def with_endpoint_measures(query: Query, taken: set[str]) -> Query:
    """The query with one row per match, and the endpoints of all its variables in MEASURES."""
    assert query.rows is not None
    one = replace(query, rows=replace(query.rows, all_rows=False))
    found = endpoint_measures(one)
    assert one.rows is not None
    names = taken | {measure.alias.lower() for measure in one.rows.measures}
    added = []
    for end, item in _wanted(query).items():
        if end in found:
            continue
        alias = "_".join(end).strip("_")
        while alias.lower() in names:
            alias += "_"
        names.add(alias.lower())
        text = item_text(item)
        value = ValueExpression(text, Column(text), text, 0)
        added.append(Measure(alias, value, ((text, item),)))
    measures = (*one.rows.measures, *added)
    return replace(one, rows=replace(one.rows, measures=measures))
