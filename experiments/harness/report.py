"""The report: a page of all results, each with its provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.harness.conclusions import factor, ratio
from experiments.harness.experiment import Experiment
from experiments.harness.measure import HARNESS, HARNESSES, INPUT, PROTOCOL, Row, Rows
from experiments.harness.provenance import QUERIES
from experiments.harness.store import FOLDER, Document, best
from experiments.harness.tables import by_input, markdown_table, select, times_of
from experiments.peers import OURS, PEERS, title

__all__ = ["figure_path", "report"]

#: Groups of experiments by name, each its experiments by name.
Groups = Mapping[str, Mapping[str, Experiment]]


def figure_path(found: Document, folder: Path = FOLDER) -> Path:
    """The path of a document's figure."""
    return folder / "figures" / found.size.value / f"{found.head['experiment']}.svg"


def report(groups: Groups, folder: Path = FOLDER) -> Path:
    """Write the page that is made of all results there are."""
    there: dict[str, list[tuple[Experiment, Document, list[Document]]]] = {}
    missing = []
    for group, experiments in groups.items():
        for name, experiment in experiments.items():
            document, others = best(experiment, folder)
            if document is None:
                missing.append(name)
            else:
                there.setdefault(group, []).append((experiment, document, others))
    shown = [entry for entries in there.values() for entry in entries]
    documents = [(experiment, document) for experiment, document, _ in shown]
    parts = [_what_is_stale(documents), _head(), _methods(), _headlines(documents)]
    for group, entries in there.items():
        parts.append(f"# {group.capitalize()}")
        parts += [_section(*entry, folder) for entry in entries]
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.")
    path = folder / "report.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def _what_is_stale(documents: Sequence[tuple[Experiment, Document]]) -> str:
    """The first line of the page: the sections whose numbers are not those of the present state."""
    stale = [experiment.name for experiment, document in documents if document.faults(experiment)]
    if not stale:
        return f"**Nothing here is stale:** {len(documents)} of {len(documents)} sections are of the present engine and harness."
    return (
        f"**Stale:** {len(stale)} of {len(documents)} sections, until they are measured anew: "
        f"{', '.join(stale)}. Each says why."
    )


def _head() -> str:
    return "\n\n".join([
        "# Measurements",
        "This page is generated from `experiments/results/` by `python -m experiments report`: every "
        "number in it, and every conclusion, is made from the results of the run that its section "
        "names. [README.md](README.md) says how to measure anew, and what is not reproduced.",
        "**Which results.** Of several runs of an experiment the page has that of the newest harness; of "
        "these, the one from which the fewest methods are missing; then that of the present engine; "
        "then the largest. A section is **stale**, and says why, if an earlier harness measured it, "
        "if a method is missing from it, or if the engine has changed since: the sources of the rooms "
        f"of the package that it runs in, by default {', '.join(QUERIES)}. This is harness {HARNESS}: "
        f"{HARNESSES[HARNESS]}.",
        f"**How it is measured.** {PROTOCOL}",
        f"**Input.** {INPUT}",
    ])  # fmt: skip


def _methods() -> str:
    lines = [[peer.title, peer.description, peer.reports.value] for peer in PEERS.values()]
    return "## Methods\n\n" + markdown_table(["method", "what it is", "reports a match"], lines)


def _headlines(there: Sequence[tuple[Experiment, Document]]) -> str:
    """The largest case of each experiment that compares times: piestream, and the next best."""
    lines = []
    for experiment, document in there:
        cases = experiment.headline(document.rows) if experiment.headline else {}
        for case, rows in cases.items():
            for form, found in by_input(rows):
                line = _headline(found)
                if line:
                    mark = " (stale)" if document.faults(experiment) else ""
                    name = f"[{experiment.name}](#{_anchor(experiment.title)}): {case}{mark}"
                    lines.append([name, form, *line])
    head = ["case", "input", "piestream, warm / cold ms", "quickest other method",
            "its warm / cold ms", "its time over piestream's"]  # fmt: skip
    text = "## In short\n\nThe largest case of each comparison; below 1× the other is quicker.\n\n"
    return text + markdown_table(head, lines) if lines else "## In short\n\nNothing was compared."


def _headline(rows: Rows) -> list[str] | None:
    mine = next(iter(select(rows, peer=OURS)), None)
    others: list[tuple[float, Row]] = []
    for row in rows:
        compared = ratio(row, mine) if mine and row["peer"] != OURS else None
        if compared:
            others.append((compared[0], row))
    if not others or mine is None:
        return None
    times, row = min(others, key=lambda other: other[0])
    return [times_of(mine), title(row["peer"]), times_of(row), factor(times)]


def _anchor(heading: str) -> str:
    """What a page calls a heading.

    >>> _anchor("PieStream, Fig. 4a: 4 to 24 symbols")
    'piestream-fig-4a-4-to-24-symbols'
    """
    kept = "".join(c for c in heading.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _section(
    experiment: Experiment, document: Document, others: list[Document], folder: Path
) -> str:
    parts = [
        f"## {experiment.title}",
        _provenance(experiment, document, others),
        f"**Question.** {experiment.question}",
        f"**Setup.** {experiment.setup}",
        experiment.tables(document.rows),
    ]
    if experiment.draw is not None:
        figure = figure_path(document, folder).relative_to(folder).as_posix()
        parts.append(f"![{experiment.title}]({figure})")
    parts.append(experiment.conclusions(document.rows))
    return "\n\n".join(part for part in parts if part)


def _provenance(experiment: Experiment, document: Document, others: list[Document]) -> str:
    """Where the numbers of a section come from, and whether they are those of the present engine."""
    head = document.head
    where = head["machine"]
    loads = [row["load"] for row in document.rows if "load" in row]
    loads += [value for value in head["load"].values() if value is not None]
    load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else "not recorded"
    lines = [
        f"`python -m experiments {experiment.name}`, size {document.size.value}, {head['date']}, "
        f"{head['seconds']:.0f} s. Commit {head['commit'] or 'not recorded'}, engine "
        f"`{head['engine'] or 'not recorded'}`, load {load}, seed {head['seed']}; "
        f"{where['processor']}, {where['cores']} cores, {where['memory_gb']} GB, {where['system']}; "
        + ", ".join(f"{name} {version}" for name, version in head["versions"].items())
        + "."
    ]
    if faults := document.faults(experiment):
        note = f" ({head['note']})" if head.get("note") else ""
        lines.append(f"**Stale:** {'; '.join(faults)}{note}.")
    for other in others:
        lines.append(
            f"Also kept: size {other.size.value}, commit {other.head['commit'] or 'not recorded'}"
            f"{', stale' if other.faults(experiment) else ''}, "
            f"in `results/{other.size.value}/{experiment.name}.json`."
        )
    return "\n".join(f"> {line}" for line in lines)
