"""Random row patterns as streams of queries over several streams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import piestream as ps
from tests.clock import Clock
from tests.row_patterns.randoms import random_pattern
from tests.scenario import Definition
from tests.truth import Expression, binary, column, previous

if TYPE_CHECKING:
    from tests.stream_scenario import StreamSpec

__all__ = ["RowScenario", "row_scenario"]

#: What an outer query may read as it reads columns of rows.
_MEASURES = {
    "n0": "MAX(n0)",
    "n1": "COUNT(n1)",
    "f0": "AVG(f0)",
    "w0": "FIRST(w0)",
    "b0": "LAST(b0)",
}
#: The oracle takes what stands behind an anchor for possible, so that these have none in the middle.
_PLANTED = (
    "A+", "A+?", "A+ U", "A B*", "U A+", "^ A* B", "A+ (B | $)",
    # known later than they end
    "A (U{2} B)?", "A+ (U B C)?", "A (U+ B)?", "(A U U U B) | A+", "A+ (U{2,4} C)?", "A+ (U{3} B)?",
)  # fmt: skip


@dataclass(frozen=True)
class RowScenario:
    """A row pattern in parts: each variable of DEFINE with its condition."""

    streams: tuple[StreamSpec, ...]  # the one that it is over
    pattern: str
    conditions: tuple[Definition, ...]
    clock: Clock
    within: int
    keys: tuple[str, ...] = ()
    skip: str = ""
    measures: tuple[tuple[str, str], ...] = ()
    in_brackets: bool = True

    def text(self) -> str:
        """The row pattern as a query of its own."""
        (stream,) = self.streams
        unit = f" UNIT {self.clock.declared_unit}" if self.clock.declared_unit else ""
        parts = [f"PARTITION BY {', '.join(self.keys)}"] * bool(self.keys)
        parts.append(f"ORDER BY ts{unit}")
        parts.append("MEASURES " + ", ".join(f"{item} AS {name}" for name, item in self.measures))
        parts += [f"AFTER MATCH SKIP {self.skip}"] * bool(self.skip)
        parts.append(f"PATTERN ({self.pattern}) WITHIN {self.clock.text(self.within)}")
        parts.append("DEFINE " + ", ".join(d.text(self.clock) for d in self.conditions))
        return f"FROM {stream.name} MATCH_RECOGNIZE ({' '.join(parts)})"

    def as_stream(self, name: str) -> str:
        """As FROM or WITH has it."""
        if self.in_brackets:
            return f"({self.text()}) AS {name}"
        return f"{self.text().removeprefix('FROM ')} AS {name}"

    @property
    def truth(self) -> Mapping[str, Any]:
        """The condition of each variable that has one."""
        return {one.name: one.predicate for one in self.conditions}

    @property
    def inputs(self) -> dict[str, StreamSpec]:
        """The stream of rows."""
        return {stream.name: stream for stream in self.streams}

    def having(self, **changes: Any) -> RowScenario:
        """The row pattern with some of its parts changed."""
        return replace(self, **changes)


def row_scenario(
    rng: Random,
    stream: StreamSpec,
    clock: Clock,
    keys: tuple[str, ...],
    predicates: Sequence[Expression],
) -> RowScenario:
    """A random row pattern over a stream; some of its conditions are these predicates."""
    conditions = [p for p in predicates if not p.reads_the_past and p.text != "TRUE"]
    conditions += [column(f"b{rng.randint(0, 5)}"), column(f"b{rng.randint(0, 5)}")]
    conditions.append(binary(rng.choice(("<", ">=")), column("n0"), previous("n0")))
    measures = dict(_MEASURES)
    if "k" not in keys:
        measures["k"] = "FIRST(k)"
    if rng.random() < 0.2:
        measures["n0"] = "NEXT(LAST(n0))"
    while True:
        pattern = rng.choice(_PLANTED)
        if rng.random() < 0.3:
            pattern = " ".join(random_pattern(rng) for _ in range(rng.randint(1, 2)))
        used = sorted(set(re.findall(r"\b[ABC]\b", pattern)))
        if not used or (pattern not in _PLANTED and set("^$") & set(pattern)):
            continue
        variable = rng.choice(used)
        found = RowScenario(
            streams=(stream,),
            pattern=pattern,
            conditions=tuple(
                Definition(v, rng.choice(conditions[: 2 + 2 * (v > "A")])) for v in used
            ),
            clock=clock,
            within=rng.choice((2, 3, 5, 8, 20, 100)),
            keys=keys,
            skip=rng.choice(
                (
                    "",
                    "",
                    "PAST LAST ROW",
                    "TO NEXT ROW",
                    f"TO FIRST {variable}",
                    f"TO LAST {variable}",
                )
            ),
            measures=tuple(measures.items()),
            in_brackets=rng.random() < 0.5,
        )
        try:
            ps.query(found.text())
        except ps.QueryError as error:  # a row to skip to that may not be there
            if "skip" not in str(error) and "search would never go on" not in str(error):
                raise
            continue
        return found
