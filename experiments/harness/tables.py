"""Rows as Markdown tables, and numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.harness.measure import Row, Rows
from experiments.peers import BITS, FRAME, INPUTS, title

__all__ = [
    "about_input",
    "by_input",
    "column_table",
    "duration",
    "markdown_table",
    "megabytes",
    "memory_table",
    "milliseconds",
    "one",
    "part",
    "pivot",
    "select",
    "thousands",
    "time_tables",
    "times_of",
    "why_not",
]


def select(rows: Iterable[Row], **where: Any) -> Rows:
    """The rows that have these values.

    >>> select([{"n": 4, "x": 1}, {"n": 8, "x": 2}], n=8)
    [{'n': 8, 'x': 2}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in where.items())]


def one(rows: Iterable[Row], value: str, **where: Any) -> Any:
    """A value of the first row that has these others; None where there is none."""
    found = select(rows, **where)
    return found[0].get(value) if found else None


def by_input(rows: Rows) -> list[tuple[str, Rows]]:
    """The rows of each form of the input, in the order of the forms."""
    return [(form, found) for form in INPUTS if (found := select(rows, input=form))]


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds, with three digits that mean something.

    >>> milliseconds(0.01234), milliseconds(None)
    ('12.3', '–')
    """
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.00125), duration(3e-8)
    ('1.25 ms', '30 ns')
    """
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def thousands(value: float | None) -> str:
    """A count, or a rate, in short.

    >>> thousands(1_234_567), thousands(999), thousands(None)
    ('1.23 M', '999', '–')
    """
    if value is None:
        return "–"
    for power, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= power * 10 or (power > 1e3 and abs(value) >= power):
            return f"{value / power:.3g}{sign}"
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def megabytes(count: float | None) -> str:
    """Bytes as megabytes.

    >>> megabytes(3 * 2**20), megabytes(None)
    ('3.0', '–')
    """
    if count is None:
        return "–"
    return f"{count / 2**20:.1f}" if count < 100 * 2**20 else f"{count / 2**20:,.0f}"


def part(value: Any) -> str:
    """A value of a case as text."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table, all columns but the first to the right."""
    body = [[str(cell) for cell in line] for line in lines]
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(head), rule, *body])


def times_of(row: Row) -> str:
    """Warm and cold milliseconds, side by side.

    >>> times_of({"cpu_s": 0.01, "cold_cpu_s": 0.0125}), times_of({"cold_cpu_s": 0.0125})
    ('10 / 12.5', '– / 12.5')
    """
    return f"{milliseconds(row.get('cpu_s'))} / {milliseconds(row.get('cold_cpu_s'))}"


def why_not(row: Row | None) -> str:
    """What stands in a cell without a number.

    >>> why_not({"over": "60 s"}), why_not({"skipped": "60 s"}), why_not({"refused": "no"})
    ('> 60 s', '(> 60 s)', 'cannot')
    """
    if row is None:
        return "–"
    if "over" in row:
        return f"> {row['over']}"
    if "skipped" in row:
        return f"(> {row['skipped']})"
    return "cannot" if "refused" in row else "failed" if "failed" in row else "–"


def pivot(
    rows: Rows,
    index: Sequence[str],
    show: Callable[[Row], str],
    *,
    measured: str = "cold_cpu_s",
    across: str = "peer",
    name: Callable[[str], str] = title,
) -> str:
    """A table with a line for each case and a column for each method, in the order of the rows.

    ``show`` makes a cell of a row that has the value ``measured``.
    """
    columns = list(dict.fromkeys(row[across] for row in rows))
    cases = list(dict.fromkeys(tuple(row.get(key) for key in index) for row in rows))
    lines = []
    for case in cases:
        here = select(rows, **dict(zip(index, case, strict=True)))
        cells = []
        for column in columns:
            found = next(iter(select(here, **{across: column})), None)
            has = found is not None and found.get(measured) is not None
            cells.append(show(found) if has and found else why_not(found))
        lines.append([*map(part, case), *cells])
    return markdown_table([*index, *(name(column) for column in columns)], lines)


def time_tables(rows: Rows, index: Sequence[str]) -> str:
    """A table of times for each form of the input."""
    return "\n\n".join(
        f"CPU milliseconds, warm / cold, {about_input(form)}:\n\n" + pivot(found, index, times_of)
        for form, found in by_input(rows)
    )


def about_input(form: str) -> str:
    """A form of the input, in words."""
    return {BITS: "input: *packed bits*", FRAME: "input: *raw frame*, deriving included"}[form]


def memory_table(rows: Rows, index: Sequence[str], of: str = "matches included") -> str:
    """What the process of a method grew by."""
    return "\n\n".join(
        f"Megabytes of RAM taken beyond the input, {of}, {about_input(form)}:\n\n"
        + pivot(found, index, lambda row: megabytes(row["peak_growth_bytes"]),
                measured="peak_growth_bytes")
        for form, found in by_input(rows)
    )  # fmt: skip


def column_table(columns: Sequence[str], rows: Rows) -> str:
    """A table of some columns, one line a row."""
    return markdown_table(
        [column.replace("_", " ") for column in columns],
        [[_cell(column, row.get(column)) for column in columns] for row in rows],
    )


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name.endswith("events_per_s"):
        return f"{value / 1e6:.3g} M"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return part(value)
