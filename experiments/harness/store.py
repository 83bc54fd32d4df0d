"""Results as files: one JSON document for each experiment and size, and what is known of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.harness.experiment import Experiment
from experiments.harness.measure import PROTOCOL, Row, Rows, Size
from experiments.harness.provenance import (
    commit,
    engine_fingerprint,
    load,
    machine,
    scripts_fingerprint,
    versions,
)
from experiments.streams import SEED

__all__ = ["FOLDER", "Document", "best", "document", "is_measured", "path_of", "read", "write"]

#: The folder of results, figures and the report, unless another is named.
FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Document:
    """One run of an experiment."""

    head: Mapping[str, Any]
    rows: Rows

    @property
    def size(self) -> Size:
        """How much was run."""
        return Size(self.head["size"])

    def is_stale(self) -> bool:
        """Whether the engine is another now than when this was measured."""
        return bool(self.head["engine"] != engine_fingerprint(self.head["on_spark"]))


def document(experiment: Experiment, size: Size, rows: Rows, **about: Any) -> Document:
    """The document of a run that has just ended; ``about`` adds to what is known of it."""
    head = {
        "experiment": experiment.name,
        "size": size.value,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "engine": engine_fingerprint(experiment.on_spark),
        "on_spark": experiment.on_spark,
        "scripts": scripts_fingerprint(),
        "load": {"before": load(), "after": load()},
        "machine": machine(),
        "versions": versions(),
        "seed": SEED,
        "protocol": PROTOCOL,
        **about,
    }
    return Document(head, rows)


def path_of(name: str, size: Size, folder: Path = FOLDER) -> Path:
    """The path of an experiment's results."""
    return folder / "results" / size.value / f"{name}.json"


def write(found: Document, folder: Path = FOLDER) -> Path:
    """Write a document, one row a line."""
    rows = ",\n".join(f"    {json.dumps(_short(row))}" for row in found.rows)
    head = json.dumps(found.head, indent=2, ensure_ascii=False)
    path = path_of(found.head["experiment"], found.size, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n')
    return path


def read(name: str, size: Size, folder: Path = FOLDER) -> Document | None:
    """A document that was written; None if there is none."""
    path = path_of(name, size, folder)
    if not path.exists():
        return None
    head = json.loads(path.read_text())
    return Document(head, head.pop("rows"))


def best(name: str, folder: Path = FOLDER) -> tuple[Document | None, list[Document]]:
    """The document to report, and the others there are.

    One of the present engine goes before a stale one, then the larger before the smaller.
    """
    found = [kept for size in reversed(Size) if (kept := read(name, size, folder)) is not None]
    found.sort(key=Document.is_stale)
    return (found[0], found[1:]) if found else (None, [])


def is_measured(name: str, size: Size, folder: Path = FOLDER) -> bool:
    """Whether there are results of this size that this very code has made."""
    found = read(name, size, folder)
    return (
        found is not None
        and not found.is_stale()
        and found.head.get("scripts") == scripts_fingerprint()
    )


def _short(row: Row) -> Row:
    """Floats to six digits: more is noise."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}
