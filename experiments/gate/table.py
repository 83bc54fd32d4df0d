"""The gate's table, as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.gate.ratios import LIMIT, Ratio
from experiments.harness.tables import markdown_table

__all__ = ["Line", "table"]


@dataclass(frozen=True)
class Line:
    """One work: the least of each side a unit, and how they compare."""

    name: str
    unit: str
    is_bytes: bool
    base: float | None
    now: float
    ratio: Ratio | None
    refused: str
    against: float | None
    goal: str


def table(about: str, lines: Sequence[Line]) -> str:
    """All works, and what was measured where."""
    head = ["work", "base", "now", "now / base", "rounds", "", "now / yardstick", "goal"]
    rows = [[
        line.name, _amount(line, line.base), _amount(line, line.now), _compared(line.ratio),
        str(line.ratio.rounds) if line.ratio else "–", line.ratio.verdict.value if line.ratio else "",
        f"{line.against:.2f} ×" if line.against else "", line.goal,
    ] for line in lines]  # fmt: skip
    refused = "".join(f"\n\n{line.name}: base: {line.refused}" for line in lines if line.refused)
    return (
        f"# The gate\n\n{about}\n\nCPU time (wall-clock time with two threads, bytes of memory where it "
        "says so), the least of all rounds; the ratio is the median of the rounds with its interval. "
        f"*slower*: the ratio is above {LIMIT} and its interval excludes 1; *?*: not clear. The yardstick "
        "of the drivers is Polars' `group_by(car_id).agg(len())` in the same process, that of a process "
        f"Polars' import.\n\n{markdown_table(head, rows)}{refused}"
    )


def _amount(line: Line, amount: float | None) -> str:
    if amount is None:
        return "–"
    if line.is_bytes:
        return f"{amount:.1f} bytes for each {line.unit}"
    for factor, name in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if amount * factor < 1000:
            return f"{amount * factor:.3g} {name} for each {line.unit}"
    return f"{amount:.3g} s a {line.unit}"


def _compared(found: Ratio | None) -> str:
    return "–" if found is None else f"{found.median:.2f} [{found.low:.2f}, {found.high:.2f}]"
