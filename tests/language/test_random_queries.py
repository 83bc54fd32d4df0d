"""Random queries: what is printed parses back, whatever the order and spelling of its parts."""

from __future__ import annotations

from random import Random

import pytest

from piestream.language import QueryError, parse
from piestream.language.endpoints import COMPARISONS, relations_where
from piestream.relations import ALL_NAMES, ANY, SETS, inverse, names
from tests.expressions.trees import Expressions

UNITS = ["ns", "us", "ms", "s", "min", "hours", "days", "Weeks", ""]


class Queries:
    """One random query text after another, as the clauses it is made of."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def duration(self) -> str:
        return f"{self.random.randint(1, 5000)} {self.random.choice(UNITS)}".strip()

    def bounds(self) -> str:
        kind = self.random.randrange(7)
        if kind == 0:
            return f" AT MOST {self.duration()}"
        if kind == 1:
            unit = self.random.choice(["s", "min", ""])
            low = self.random.randint(0, 50)
            return f" BETWEEN {low} {unit} AND {low + self.random.randint(1, 50)} {unit}"
        if kind == 2:
            return f"{self.lengths()} AT LEAST {self.random.randint(0, 9)} EVENTS"
        if kind == 3:
            return f" BETWEEN 2 AND {self.random.randint(2, 9)} EVENTS{self.lengths()}"
        return ""

    def lengths(self) -> str:
        return self.random.choice(["", " AT LEAST 5 s", " AT MOST 1 h", " BETWEEN 4 s AND 1 h"])

    def clauses(self) -> list[str]:
        random = self.random
        symbols = random.sample(["a", "b", "s", '"to be"', '"meets"', "covers", "Über", "x1"], 4)
        symbols = symbols[: random.randint(1, 4)]
        expressions = Expressions(random)
        define = ", ".join(f"{s} AS {expressions.truth(2)}" + self.bounds() for s in symbols)
        constraints = []
        for index, y in enumerate(symbols[1:], 1):
            x, names = random.choice(symbols[:index]), random.sample([*ALL_NAMES, *SETS], 3)
            if random.random() < 0.5:
                x, y = y, x
            joined = random.choice(["; ", "|"]).join(names)
            spelt = joined.replace("-", random.choice(["-", "_", " "])).upper()
            constraints.append(f"{x} {spelt} {y}")
        random.shuffle(constraints)
        clauses = [
            f"FROM {random.choice(['x', chr(34) + 'my stream' + chr(34), chr(39) + 'a/*.csv' + chr(39)])}",
            f"DEFINE {define}",
            f"PATTERN {' AND '.join(constraints) or symbols[0]}",
            f"WITHIN {random.randint(100, 999)} days",
        ]
        if random.random() < 0.5:
            clauses.append(f"EMIT ON {random.choice(['trigger', 'Completion', 'BOTH'])}")
        if random.random() < 0.5:
            clauses.append("PARTITION BY k, l")
        if random.random() < 0.5:
            clauses.append(f"ORDER BY t {random.choice(['', 'UNIT s', 'UNIT minutes'])}")
        if random.random() < 0.5:
            clauses.append(f"MAX GAP {self.duration()}")
        if random.random() < 0.5:
            s, o = random.choice(symbols), random.choice(symbols)
            items = [f"avg({s}.v)", f"{s}.ts", f"DURATION({s}) AS d", f"count({o})"]
            clauses.append("RETURN " + ", ".join(items))
        return clauses


@pytest.mark.parametrize("seed", range(150))
def test_what_is_printed_parses_back_in_any_order_of_clauses(seed: int) -> None:
    random = Random(seed)
    clauses = Queries(random).clauses()
    try:
        query = parse("\n".join(clauses))
    except QueryError as error:
        # Random constraints and types may contradict each other; nothing else may be at fault.
        allowed = ("cannot mix", "satisfy together", "same predicate", "whole numbers", "be cast")
        if not all(any(a in f.message for a in allowed) for f in error.faults):
            raise
        return
    assert parse(str(query)) == query
    again = parse(str(query))
    assert str(again) == str(query)
    assert [s.predicate.tree for s in again.symbols] == [s.predicate.tree for s in query.symbols]
    random.shuffle(clauses)
    shuffled = parse(" ".join(clauses))
    assert shuffled == query
    assert hash(shuffled) == hash(query)


def test_most_random_queries_are_sound() -> None:
    sound = 0
    for seed in range(60):
        try:
            parse("\n".join(Queries(Random(seed)).clauses()))
            sound += 1
        except QueryError:
            pass
    assert sound > 40


def test_endpoint_comparisons_are_the_relations_that_satisfy_them() -> None:
    assert names(relations_where("te", "<", "ts")) == ("before",)
    assert names(relations_where("te", "=", "ts")) == ("meets",)
    assert names(relations_where("ts", "=", "ts")) == ("starts", "equals", "started-by")
    assert names(relations_where("te", "=", "te")) == ("finished-by", "equals", "finishes")
    for x in ("ts", "te"):
        for y in ("ts", "te"):
            for sign, other in (("<", ">="), ("=", "!="), (">", "<="), ("==", "<>")):
                yes, no = relations_where(x, sign, y), relations_where(x, other, y)
                assert yes | no == ANY
                assert not yes & no
            assert relations_where(x, "<", y) == inverse(relations_where(y, ">", x))
    assert set(COMPARISONS) == {"<", "<=", "=", "==", ">", ">=", "!=", "<>"}
