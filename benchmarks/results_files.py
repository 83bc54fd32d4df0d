"""Results as JSON beside the programs, and as a table to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import TIMING, YARDSTICK, Row, Scale, machine, versions
from benchmarks.streams import seed

__all__ = ["RESULTS", "document", "shown", "table", "write"]

RESULTS = Path(__file__).parent / "results"


def document(name: str, title: str, scale: Scale, rows: Sequence[Row]) -> Mapping[str, Any]:
    """Everything that is known of one run of a program."""
    return {
        "program": name,
        "title": title,
        "scale": scale.value,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "seed": seed,
        "timing": TIMING,
        "yardstick": YARDSTICK,
        "rows": list(rows),
    }


def write(told: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write a document, one row a line."""
    rows = ",\n".join(f"    {json.dumps(_short(row))}" for row in told["rows"])
    head = json.dumps({key: value for key, value in told.items() if key != "rows"}, indent=2)
    path = folder / f"{told['program']}.json"
    folder.mkdir(exist_ok=True)
    path.write_text(f'{head[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n')
    return path


def shown(name: str, columns: Sequence[str], folder: Path = RESULTS) -> str:
    """The table of a program's last full run, and when and on what it was made."""
    path = folder / f"{name}.json"
    if not path.exists():
        return f"not measured yet: python -m benchmarks {name} --full"
    told = json.loads(path.read_text())
    loads = [row["load"] for row in told["rows"] if "load" in row]
    machine = told["machine"]
    made = [
        told["date"],
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB",
        *(f"{what} {version}" for what, version in told["versions"].items()),
        *([f"load average {min(loads):.1f} to {max(loads):.1f}"] if loads else []),
    ]
    return f"{table(columns, told['rows'])}\n\n{', '.join(made)}"


def _short(row: Row) -> Row:
    """Floats to six digits: more is noise."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}


def table(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A Markdown table of some columns."""
    cells = [[_cell(name, row.get(name)) for name in columns] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = (text.rjust(width) for text, width in zip(texts, widths, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = f"|{'|'.join('-' * (width + 1) + ':' for width in widths)}|"
    return "\n".join([line(columns), rule, *map(line, cells)])


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        if name.endswith("events_per_s"):
            return f"{value / 1e6:.2f} M"
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value)
