"""Random row patterns and partitions, from a seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from tests.row_patterns.conditions import holds_of_row

__all__ = ["FUTURES", "LETTERS", "Case", "random_case", "row_case", "with_what_holds"]

#: The variables; the condition of each is a column of its own, but U, which has none.
DEFINED = ("A", "B", "C")
NAMES = (*DEFINED, "U")
#: What may hold of a row to come: nothing, any one condition, or all.
LETTERS: tuple[Mapping[str, Any], ...] = tuple(
    {"holds": frozenset({"U", *some})} for some in ((), ("A",), ("B",), ("C",), DEFINED)
)

#: Rows to come of which any condition of `_OPEN` can be true, or none.
FUTURES: tuple[Mapping[str, Any], ...] = (
    *({"x": x, "name": "p", "a": True, "b": True, "c": True} for x in (-99, 99)),
    {"x": None, "name": "q", "a": False, "b": False, "c": False},
)

_QUANTIFIERS = (
    "",
    "",
    "",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{0,2}?",
    "{2,}",
    "{,2}",
)
_ITEMS = (
    "FIRST({v}.x)", "LAST({v}.x)", "FIRST({v}.x, 1)", "LAST({v}.x, 1)", "PREV({v}.x)",
    "NEXT({v}.x, 2)", "PREV(FIRST({v}.x), 2)", "x", "FIRST(x)", "COUNT(*)", "COUNT({v}.*)",
    "COUNT({v}.x)", "SUM({v}.x)", "MIN(x)", "MAX({v}.x)", "AVG({v}.x)", "CLASSIFIER()",
    "MATCH_NUMBER()", "CLASSIFIER({v})", "LAST({v}.name)", "SUM({v}.x * 2)", "MAX(x + x)",
    "LAST(UPPER({v}.name))", "PREV({v}.x + 1)", "COUNT(NULLIF({v}.x, 1))", "AVG({v}.x / 2)",
)  # fmt: skip


_ATOMS = (
    "{v}.x {op} {w}.x", "x {op} {w}.x", "x {op} LAST({w}.x, 1)", "x {op} FIRST({w}.x)",
    "FIRST({w}.x, 1) {op} x", "FIRST(x) {op} x", "LAST(x, 1) {op} x", "SUM({w}.x) {op} {k}",
    "COUNT({w}.*) {op} {k}", "COUNT(*) {op} {k}", "COUNT({w}.x) {op} {k}", "AVG({w}.x) {op} x",
    "MIN({w}.x) {op} x", "MAX(x) {op} {w}.x", "x {op} PREV(x)", "x {op} PREV(x, 2)",
    "PREV({w}.x) {op} x", "PREV(FIRST({w}.x), 2) {op} x", "CLASSIFIER({w}) = '{u}'",
    "LAST(CLASSIFIER(), 1) <> '{u}'", "MATCH_NUMBER() {op} {k}", "{w}.name = name", "a", "b",
    "{w}.x IS NULL", "COALESCE({w}.x, 2) {op} x", "x - {w}.x {op} 1", "ABS(x - {w}.x) {op} {k}",
    "x + {w}.x BETWEEN 1 AND {k}", "GREATEST(x, {w}.x) IN (1, {k})", "x * 2 {op} SUM({w}.x) % 3",
    "CASE WHEN {w}.x > 1 THEN x {op} 2 ELSE b END", "x / {w}.x {op} 1",
)  # fmt: skip
#: Those in which values of several rows meet lengths of time, texts, functions and expressions.
_RICHER = (
    "t - {w}.t {op} {k} s", "{w}.t - PREV({w}.t) {op} INTERVAL '{k}' SECOND", "t - PREV(t) {op} {k} s",
    "t - FIRST({w}.t) BETWEEN 1 s AND {k} s", "{w}.name = 'p'", "{w}.name <> 'q'", "{w}.name < 'q'",
    "{w}.name IN ('p', 'r')", "{w}.name LIKE 'p%'", "FIRST({w}.name) NOT LIKE '_'",
    "UPPER({w}.name) = UPPER(name)", "name = LOWER({w}.name)", "REVERSE({w}.name) <= name",
    "LENGTH({w}.name) + x {op} 2", "COALESCE({w}.name, 'z') = 'z'", "{w}.name IS NULL AND x {op} {k}",
    "SUM({w}.x * 2) {op} {k}", "AVG({w}.x + 1) {op} x", "MAX({w}.x % 3) {op} x - 1",
    "COUNT(NULLIF({w}.x, 2)) {op} {k}", "MIN(UPPER({w}.name)) = 'P'", "PREV({w}.x * 2, 2) {op} x",
    "PREV(x + 1) {op} {w}.x", "FIRST({w}.x * 3) {op} x", "LAST({w}.x - 1, 1) {op} x",
    "ROUND(x / {w}.x, 1) {op} 1", "FLOOR(x / {w}.x) {op} 1", "CEIL({w}.x / 2.0) {op} x / 2",
    "SIGN(x - {w}.x) {op} 0", "EXP(x - {w}.x) {op} 1", "LN({w}.x) {op} x / 2", "SQRT(x + {w}.x) {op} 2",
    "POWER(x, {w}.x) {op} 4", "COALESCE({w}.x, x, 1) {op} {k}", "({w}.name = 'p') = a",
    "CASE WHEN {w}.name = 'q' THEN {w}.x ELSE x END {op} 2", "NOT {w}.a OR x {op} {k}",
    "LEAST(x, LENGTH({w}.name)) {op} 1", "MAX({w}.name) = name", "COALESCE({w}.name, name) = 'p'", "GREATEST({w}.name, name) < 'q'",
    "CASE WHEN x > 1 THEN name ELSE {w}.name END <> 'q'", "MIN(name) > 'p' OR {w}.x {op} {k}",
)  # fmt: skip
_AHEAD = (
    "NEXT(x + 1) {op} {w}.x",
    "NEXT(name) = {w}.name",
    "NEXT(t) - {w}.t {op} {k} s",
    "NEXT(x) {op} x",
    "NEXT({w}.x) {op} x",
    "NEXT(x, 2) IS NULL",
    "NEXT(FIRST({w}.x)) {op} 2",
)
#: Conditions that a row to come can fulfil, whatever the match so far.
_OPEN = (
    "x {way} COALESCE({w}.x, 2)", "x {way} COALESCE(LAST({w}.x, 1), 2)",
    "x {way} COALESCE(FIRST({w}.x), 2)", "x {way} COALESCE(LAST(x, 1), 2)",
    "x {way} COALESCE(PREV({w}.x), 2)", "x {way} COALESCE(MAX({w}.x), 2)", "x {way} COUNT({w}.*)",
    "x {way} COALESCE(AVG({w}.x), 2)", "x {way} COALESCE(SUM({w}.x), 2)", "a AND x {way} COUNT({w}.*)",
    "x {way} COALESCE({w}.x, 2) OR b AND MATCH_NUMBER() < 0",
)  # fmt: skip


#: The columns of the rows.
_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}


@dataclass(frozen=True)
class Case:
    """A query, and the rows of one partition, with what holds of each."""

    query: ps.Query
    rows: list[dict[str, Any]]

    def events(self, key: int = 0) -> list[dict[str, Any]]:
        """The rows as the query reads them."""
        return [
            {"k": key} | {name: value for name, value in row.items() if name != "holds"}
            for row in self.rows
        ]


def random_pattern(random: Random, depth: int = 2) -> str:
    """The text of a pattern."""
    kind = random.random()
    if depth == 0 or kind < 0.35:
        part = random.choice(NAMES)
    elif kind < 0.6:
        part = "(" + " ".join(random_pattern(random, depth - 1) for _ in range(2)) + ")"
    elif kind < 0.8:
        part = "(" + " | ".join(random_pattern(random, depth - 1) for _ in range(2)) + ")"
    elif kind < 0.85:
        part = "PERMUTE(" + ", ".join(random_pattern(random, 0) for _ in range(2)) + ")"
    elif kind < 0.92:
        part = "{- " + random_pattern(random, depth - 1) + " -}"
    elif kind < 0.95:
        return random.choice("^$")
    else:
        part = "()"
    return part + random.choice(_QUANTIFIERS)


def random_condition(
    random: Random, variable: str, used: list[str], ahead: bool, is_open: bool
) -> str:
    """The text of a condition that may read other rows of the match."""
    others = [name for name in used if name not in (variable, "S")]
    if is_open and others:
        form = random.choice(_OPEN)
        return form.format(way=random.choice("<>"), w=random.choice(others))
    if is_open:
        return variable.lower()

    def atom() -> str:
        forms = random.choice((_ATOMS, _RICHER))
        form = random.choice(_AHEAD if ahead and random.random() < 0.2 else forms)
        return form.format(
            v=variable, w=random.choice(used), u=random.choice(used), k=random.randint(0, 4),
            op=random.choice(["<", "<=", ">", ">=", "=", "<>"]),
        )  # fmt: skip

    kind = random.random()
    if kind < 0.5:
        return atom()
    if kind < 0.7:
        return f"{atom()} AND {atom()}"
    if kind < 0.9:
        return f"{atom()} OR {atom()}"
    return f"NOT ({atom()} AND {atom()})"


def _text(random: Random, memory: bool, ahead: bool, is_open: bool) -> str:
    pattern = " ".join(random_pattern(random) for _ in range(random.randint(1, 3)))
    if not set(re.findall(r"\b[ABC]\b", pattern)):
        pattern += " A?"
    used = sorted(set(re.findall(r"\b[ABCU]\b", pattern)))
    defined = [name for name in DEFINED if name in used]
    all_rows = random.random() < 0.4
    measures = []
    for number in range(random.randint(1, 4)):
        item = random.choice(_ITEMS).format(v=random.choice(used))
        prefix = random.choice(["", "FINAL ", "RUNNING "]) if all_rows else ""
        if item.startswith(("PREV", "NEXT", "x", "MATCH")):
            prefix = ""
        measures.append(f"{prefix}{item} AS m{number}")
    output = ""
    if all_rows:
        shown = ["", " SHOW EMPTY MATCHES", " OMIT EMPTY MATCHES"]
        output = "ALL ROWS PER MATCH" + random.choice(
            shown if "{-" in pattern else [*shown, " WITH UNMATCHED ROWS"]
        )
    skip = random.choice(
        ["", "", "AFTER MATCH SKIP TO NEXT ROW"]
        + [f"AFTER MATCH SKIP TO {which} {random.choice(used)}" for which in ("FIRST", "LAST")]
    )
    within = random.choice(["", "", f"WITHIN {random.randint(1, 6)}"])
    conditions = {name: name.lower() for name in defined}
    subset = mode = ""
    if memory:
        mode = random.choice(["", "", "INCREMENTAL MATCH", "MAXIMAL MATCH"])
        if mode[:3] == "INC":
            skip, pattern = "AFTER MATCH SKIP TO NEXT ROW", pattern.replace("$", "()")
            output = output.replace(" WITH UNMATCHED ROWS", "")
        read = used
        if len(used) > 1 and random.random() < 0.3:
            subset = f"SUBSET S = ({used[0]}, {used[-1]})"
            read = [*used, "S"]
        for name in defined:
            if random.random() < 0.7:
                own = ahead and mode[:3] != "INC"
                conditions[name] = random_condition(random, name, read, own, is_open)
        if mode[:3] == "INC":
            conditions = {n: c.replace("MATCH_NUMBER()", "1") for n, c in conditions.items()}
    defines = ", ".join(f"{name} AS {condition}" for name, condition in conditions.items())
    return (
        f"FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t UNIT s MEASURES {', '.join(measures)} {output} "
        f"{skip} {mode} PATTERN ({pattern}) {subset} {within} DEFINE {defines})"
    )


def random_rows(random: Random, n_rows: int) -> list[dict[str, Any]]:
    """At most so many rows of one partition, with the variables whose plain conditions hold."""
    rows: list[dict[str, Any]] = []
    time = 0
    for _ in range(random.randint(0, n_rows)):
        time += random.choice([1, 1, 1, 2, 5])
        held = {name for name in DEFINED if random.random() < 0.5}
        value = random.choice([None, *range(5)])
        name = random.choice([None, "p", "q", "r"])
        row = {"t": time, "x": value, "name": name, "holds": frozenset({"U", *held})}
        rows.append(row | {each.lower(): each in held for each in DEFINED})
    return rows


def random_case(
    seed: int, n_rows: int = 10, memory: bool = False, ahead: bool = True, is_open: bool = False
) -> Case:
    """The case of a seed; with ``memory`` conditions read other rows of the match too.

    They read rows behind their own only if ``ahead``. Where it ``is_open``, a row to come can fulfil
    each of them, whatever the match so far.
    """
    random = Random(seed)
    while True:
        try:
            query = ps.query(_text(random, memory, ahead, is_open))
            break
        except ps.QueryError as error:  # a row to skip to that may not be there
            if "skip" not in str(error) and "search would never go on" not in str(error):
                raise
    rows = random_rows(random, n_rows)
    return Case(query, with_what_holds(query, rows) if memory else rows)


def row_case(seed: int, memory: bool) -> tuple[Case, pl.DataFrame]:
    """A row pattern and its rows, many of which have one time, in their order."""
    drawn = random_case(seed, 7 if memory else 10, memory)
    rows = [{**row, "t": row["t"] // 3} for row in drawn.rows]
    pattern = drawn.query.rows
    by_rows = pattern is not None and pattern.all_rows  # all columns are in the result
    stream = replace(
        drawn.query.streams[0], order_by="t", sequence=None if by_rows else "seq", row_order=by_rows
    )
    case = Case(replace(drawn.query, streams=(stream,)), with_what_holds(drawn.query, rows))
    frame = pl.DataFrame(case.events(), schema=_TYPES)
    return case, frame if by_rows else frame.with_columns(seq=2 * pl.int_range(pl.len()))


def with_what_holds(query: ps.Query, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the variables whose conditions read no other rows of the match."""
    return [{**row, "holds": _held(query, rows, number)} for number, row in enumerate(rows)]


def _held(query: ps.Query, rows: Sequence[Mapping[str, Any]], number: int) -> frozenset[str]:
    """The variables whose conditions read no other rows of the match, and hold of a row."""
    assert query.rows is not None
    alone = [s for s in query.symbols if query.rows.condition(s.name) is None]
    trees = {symbol.name: symbol.predicate.tree for symbol in alone}
    return frozenset(
        name for name, tree in trees.items() if tree and holds_of_row(tree, rows, number)
    )
