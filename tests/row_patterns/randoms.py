"""Random row patterns and partitions, from a seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

import piestream as ps

__all__ = ["LETTERS", "Case", "random_case"]

#: The variables; the condition of each is a column of its own, but U, which has none.
DEFINED = ("A", "B", "C")
NAMES = (*DEFINED, "U")
#: What may hold of a row to come: nothing, any one condition, or all.
LETTERS = tuple(frozenset({"U", *some}) for some in ((), ("A",), ("B",), ("C",), DEFINED))

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
    "MATCH_NUMBER()", "CLASSIFIER({v})", "LAST({v}.name)",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query, and the rows of one partition, with what holds of each."""

    query: ps.Query
    rows: list[dict[str, Any]]

    def events(self, key: int = 0) -> list[dict[str, Any]]:
        """The rows as the query reads them."""
        return [
            {"k": key, "t": row["t"], "x": row["x"], "name": row["name"]}
            | {name.lower(): name in row["holds"] for name in DEFINED}
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


def _text(random: Random) -> str:
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
    conditions = ", ".join(f"{name} AS {name.lower()}" for name in defined)
    return (
        f"FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES {', '.join(measures)} {output} "
        f"{skip} PATTERN ({pattern}) {within} DEFINE {conditions})"
    )


def random_case(seed: int, n_rows: int = 10) -> Case:
    """The case of a seed."""
    random = Random(seed)
    while True:
        try:
            query = ps.query(_text(random))
            break
        except ps.QueryError as error:  # a row to skip to that may not be there
            if "skip" not in str(error) and "search would never go on" not in str(error):
                raise
    rows, time = [], 0
    for _ in range(random.randint(0, n_rows)):
        time += random.choice([1, 1, 1, 2, 5])
        held = {name for name in DEFINED if random.random() < 0.5}
        value = random.choice([None, *range(5)])
        name = random.choice([None, "p", "q", "r"])
        rows.append({"t": time, "x": value, "name": name, "holds": frozenset({"U", *held})})
    return Case(query, rows)
