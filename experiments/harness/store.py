"""Results as files: one JSON document for each experiment and size, and what is known of its run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.harness.experiment import Experiment
from experiments.harness.measure import HARNESS, HARNESSES, PROTOCOL, Row, Rows, Size
from experiments.harness.provenance import (
    commit,
    fingerprint,
    load,
    machine,
    scripts_fingerprint,
    versions,
)
from experiments.peers import PEERS
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

    @property
    def harness(self) -> int:
        """The version of the harness that measured it: the first two wrote no number."""
        return int(self.head.get("harness") or (2 if self.head["protocol"] else 1))

    def is_of_another_engine(self, experiment: Experiment) -> bool:
        """True if the rooms of the package that it depends on have changed since."""
        return bool(self.head["engine"] != fingerprint(experiment.rooms))

    def lacks(self, experiment: Experiment) -> list[str]:
        """The methods of the experiment of which it has no row, but for those that are optional."""
        measured = {row.get("peer") for row in self.rows}
        return [
            name
            for name in experiment.methods
            if name not in measured and not (name in PEERS and PEERS[name].is_optional)
        ]

    def faults(self, experiment: Experiment) -> list[str]:
        """Why it is stale, in words; nothing if it is not."""
        found = []
        if self.harness < HARNESS:
            found.append(f"measured by harness {self.harness} ({HARNESSES[self.harness]})")
        if lacks := self.lacks(experiment):
            names = ", ".join(PEERS[name].title if name in PEERS else name for name in lacks)
            found.append(f"measured without {names}")
        if self.is_of_another_engine(experiment):
            found.append("measured on other sources of the engine than the present ones")
        return found


def document(experiment: Experiment, size: Size, rows: Rows, **about: Any) -> Document:
    """The document of a run that has just ended; ``about`` adds to what is known of it."""
    head = {
        "experiment": experiment.name,
        "size": size.value,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "engine": fingerprint(experiment.rooms),
        "rooms": experiment.rooms,
        "scripts": scripts_fingerprint(),
        "load": {"before": load(), "after": load()},
        "machine": machine(),
        "versions": versions(),
        "seed": SEED,
        "harness": HARNESS,
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


def best(experiment: Experiment, folder: Path = FOLDER) -> tuple[Document | None, list[Document]]:
    """The document to report, and the others there are.

    The newest harness goes first, then the fewest methods that are missing, then the present engine,
    then the larger size: a large result of an earlier protocol, or one that a strong method is missing
    from, never stands in front of a newer and fairer one.
    """
    sizes = list(Size)
    found = [kept for size in sizes if (kept := read(experiment.name, size, folder)) is not None]

    def rank(kept: Document) -> tuple[int, int, bool, int]:
        return (
            -kept.harness,
            len(kept.lacks(experiment)),
            kept.is_of_another_engine(experiment),
            -sizes.index(kept.size),
        )

    found.sort(key=rank)
    return (found[0], found[1:]) if found else (None, [])


def is_measured(experiment: Experiment, size: Size, folder: Path = FOLDER) -> bool:
    """True if there are results of this size that this very code has made."""
    found = read(experiment.name, size, folder)
    return (
        found is not None
        and not found.faults(experiment)
        and found.head.get("scripts") == scripts_fingerprint()
    )


def _short(row: Row) -> Row:
    """Floats to six digits: more is noise."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}
