"""Results as files: numbers as JSON, figures as SVG and PNG, and the report made of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.experiment import Experiment, milliseconds, table
from experiments.measure import TIMING, Row, Rows, Size, machine, versions
from experiments.peers import title
from experiments.streams import SEED

__all__ = ["FOLDER", "document", "draw", "is_measured", "load", "report", "write"]

FOLDER = Path(__file__).parent


def source() -> str:
    """A fingerprint of the code that measures and of the code that is measured."""
    told = hashlib.sha256()
    for folder in (FOLDER, FOLDER.parent / "piestream"):
        for path in sorted(folder.rglob("*.py")):
            told.update(path.read_bytes())
    return told.hexdigest()[:16]


def is_measured(name: str, size: Size, folder: Path = FOLDER) -> bool:
    """Whether there are results of this size that this very code has made."""
    told = load(name, folder)
    return told is not None and (told["size"], told.get("source")) == (size.value, source())


def document(
    experiment: Experiment, size: Size, rows: Rows, seconds: float = 0.0, load: float | None = None
) -> Mapping[str, Any]:
    """Everything that is known of one run of an experiment."""
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "size": size.value,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "source": source(),
        "machine": {**machine(), **({} if load is None else {"load_before": round(load, 1)})},
        "versions": versions(),
        "seed": SEED,
        "timing": TIMING,
        "rows": rows,
    }


def write(told: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Write a document, one row a line."""
    rows = ",\n".join(f"    {json.dumps(_short(row))}" for row in told["rows"])
    head = json.dumps({key: value for key, value in told.items() if key != "rows"}, indent=2)
    path = folder / "results" / f"{told['experiment']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head[:-2]},\n  "rows": [\n{rows}\n  ]\n}}\n')
    return path


def load(name: str, folder: Path = FOLDER) -> Mapping[str, Any] | None:
    """A document that was written; None if there is none."""
    path = folder / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def draw(experiment: Experiment, rows: Rows, folder: Path = FOLDER) -> list[Path]:
    """The figure of an experiment as SVG and PNG; says what to install if nothing can draw."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "figures are drawn with matplotlib: pip install 'piestream[plot]', "
            "or run with --no-figures"
        ) from None
    mpl.use("Agg")
    # The same rows give the same file, byte for byte.
    mpl.rcParams.update({"svg.hashsalt": "piestream", "font.size": 9, "axes.titlesize": 9})
    from matplotlib.figure import Figure

    figure = Figure(figsize=experiment.figure_size, layout="constrained")
    experiment.draw(rows, figure)
    paths = []
    for kind in ("svg", "png"):
        path = folder / "figures" / f"{experiment.name}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110, metadata={"Date": None} if kind == "svg" else None)
        paths.append(path)
    return paths


def report(experiments: Sequence[Experiment], folder: Path = FOLDER) -> Path:
    """The page that is made of all results there are."""
    told = [(experiment, load(experiment.name, folder)) for experiment in experiments]
    there = [(experiment, document) for experiment, document in told if document]
    parts = [_head([document for _, document in there])]
    parts += [_headlines(there)]
    parts += [_section(experiment, document) for experiment, document in there]
    missing = [experiment.name for experiment, document in told if document is None]
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    path = folder / "report.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def _head(documents: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "# piestream beside its peers",
        "This page is generated from `experiments/results/*.json` by `python -m experiments "
        "report`; its numbers are those of these files. `make experiments` measures anew, in "
        "minutes; `ARGS=--full` takes sizes near the papers', in more than an hour. "
        "[README.md](README.md) says what each script takes, and what is not reproduced.",
    ]
    if documents:
        machines = list(dict.fromkeys(
            f"{d['machine']['processor']}, {d['machine']['cores']} cores, "
            f"{d['machine']['memory_gb']} GB, {d['machine']['system']}" for d in documents
        ))  # fmt: skip
        versions_ = documents[-1]["versions"]
        dates = sorted(d["date"] for d in documents)
        loads = [d["machine"]["load_before"] for d in documents]
        lines.append(
            f"**Measured** {dates[0]} to {dates[-1]} on {'; '.join(machines)}; its load when a "
            f"script began was {min(loads):g} to {max(loads):g}. "
            f"**Versions:** {', '.join(f'{k} {v}' for k, v in versions_.items())}. "
            f"**Sizes:** {', '.join(sorted({d['size'] for d in documents}))}. **Seeds** begin at "
            f"{documents[-1]['seed']}."
        )
    lines.append(f"**Timing.** {TIMING}")
    lines.append(
        "**Peers.** TPStream (as published: the reading of its Algorithm 4 under which it is "
        "right; and corrected: no powersets, earliest instants), PieStream as its paper writes it, "
        "and ISEQ are written anew as compiled loops over the same arrays as piestream's own, so "
        "that methods are compared and not languages. They are handed ready times and masks of "
        "bits, as *piestream, detector* is; *piestream, whole query* also evaluates predicates "
        "on a Polars frame and makes a frame of the matches. DuckDB and Polars see the whole "
        "stream at once and answer when it is over; their time includes taking the columns in. "
        "The authors' Java program is run where `PIESTREAM_JAVA` names a built copy. Details: the "
        "docstrings in `experiments/baselines/`."
    )
    return "\n\n".join(lines)


def _headlines(there: Sequence[tuple[Experiment, Mapping[str, Any]]]) -> str:
    """The largest case of each experiment that compares times: we, and the quickest peer."""
    lines = []
    for experiment, document in there:
        cases = experiment.headline(document["rows"]) if experiment.headline else {}
        for case, rows in cases.items():
            times = {row["peer"]: row["cpu_s"] for row in rows if row.get("cpu_s")}
            whole, detector = times.pop("piestream", None), times.pop("piestream-detector", None)
            if not times or not whole:
                continue
            best = min(times, key=lambda peer: times[peer])
            lines.append([
                f"[{experiment.name}](#{_anchor(experiment.title)}): {case}",
                milliseconds(whole), milliseconds(detector),
                f"{milliseconds(times[best])} ({title(best)})", _times(times[best] / whole),
                _times(times[best] / detector) if detector else "–",
                *(milliseconds(times.get(peer)) for peer in ("tpstream", "piestream-paper")),
            ])  # fmt: skip
    if not lines:
        return "## In short\n\nNothing that compares times has been run."
    head = ["case", "piestream, whole query", "piestream, detector", "quickest peer",
            "peer / whole query", "peer / detector", title("tpstream"), title("piestream-paper")]  # fmt: skip
    return (
        "## In short\n\nCPU milliseconds in the largest case of each experiment; below 1× the "
        "peer is quicker.\n\n" + table(head, lines)
    )


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 10 else f"{ratio:.2g}×"


def _anchor(heading: str) -> str:
    """What a page calls a heading."""
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _section(experiment: Experiment, document: Mapping[str, Any]) -> str:
    rows = document["rows"]
    figure = f"![{experiment.title}](figures/{experiment.name}.svg)"
    return "\n\n".join(
        [
            f"## {experiment.title}",
            f"*`python -m experiments {experiment.name}`, size {document['size']}, "
            f"{document['date']}, {document.get('seconds', 0):.0f} s*",
            f"**Asked.** {experiment.asked}",
            f"**How.** {experiment.how}",
            experiment.tables(rows),
            figure,
            experiment.meaning(rows),
        ]
    )


def _short(row: Row) -> Row:
    """Floats to six digits: more is noise."""
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()}
