"""Earliness: the report of each method against the earliest possible one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from random import Random
from typing import TYPE_CHECKING

from experiments.baselines import UnsupportedPatternError
from experiments.baselines.java import CHAIN
from experiments.baselines.pattern import Pattern
from experiments.experiment import Experiment, pivot, select
from experiments.futures import certain, restless, runs
from experiments.measure import Row, Rows, Size
from experiments.peers import Case, title
from experiments.streams import SEED
from piestream.relations import ALLEN, Relation, names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = ("piestream", "tpstream", "tpstream-published", "piestream-paper", "iseq")

_G3 = Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS
_G2 = Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY
_G3_TURNED = Relation.DURING | Relation.FINISHES | Relation.OVERLAPPED_BY

#: Sets with a name of their own in the table.
NAMED: Mapping[str, Relation] = {
    **{names(relation)[0]: relation for relation in Relation},
    "{overlaps, finished-by, contains}": _G3,
    "{starts, equals, started-by}": _G2,
    "{during, finishes, overlapped-by}": _G3_TURNED,
    "{overlaps, finished-by}": Relation.OVERLAPS | Relation.FINISHED_BY,
    "{before, meets}": Relation.BEFORE | Relation.MEETS,
    "Fig. 4's six": CHAIN,
    "any but before, after": _G3 | _G2 | _G3_TURNED | Relation.MEETS | Relation.MET_BY,
    "all thirteen": reduce(or_, ALLEN),
}
#: Longer than any stream here: reports are compared, not windows.
_WINDOW = 1_000_000


def _drawn(size: Size) -> list[Relation]:
    """Sets of relations beside those with a name: some at random, or thousands."""
    if size is Size.FULL:
        return [Relation(bits) for bits in range(1, 1 << 15, 31)]
    rng = Random(SEED)
    return [
        reduce(or_, rng.sample(list(Relation), rng.randint(2, 10)))
        for _ in range(size.of(3, 60, 0))
    ]


def rows(size: Size) -> Iterator[Row]:
    """A row a set of relations and peer."""
    events = size.of(80, 500, 500)
    times, masks = restless(2, events, SEED)
    letters = [int(mask & 1) * 2 + int(mask >> 1 & 1) for mask in masks]
    # What can come of every pair at every instant does not depend on the constraint.
    pairs = [
        ((int(times[x[0]]), int(times[y[0]])), list(certain(letters, x, y)))
        for x in runs(masks, 0)
        for y in runs(masks, 1)
    ]
    sets = [(name, relations) for name, relations in NAMED.items()]
    sets += [("sets at random", relations) for relations in _drawn(size)]
    for name, relations in sets:
        optimum: dict[tuple[int, ...], int] = {}
        for starts, course in pairs:
            for row, possible in course:
                if all(held & relations for held in possible):
                    optimum[starts] = int(times[row])
                    break
        case = Case(Pattern(2, ((0, 1, relations),), _WINDOW), times, masks)
        for peer in PEERS:
            told: Row = {"relations": name, "bits": int(relations), "peer": peer}
            try:
                found = case.matches(peer).tolist()
            except UnsupportedPatternError as refusal:
                yield {**told, "refused": str(refusal)}
                continue
            yield {**told, "events": events, "seed": SEED, **_against(optimum, found)}


def _against(optimum: Mapping[tuple[int, ...], int], found: list[list[int]]) -> Row:
    """How a method's reports compare with the earliest possible ones."""
    reports = {tuple(starts): report for report, *starts in found}
    delays = [report - optimum[starts] for starts, report in reports.items() if starts in optimum]
    return {
        "possible": len(optimum),
        "missing": len(optimum.keys() - reports.keys()),
        "false": len(reports.keys() - optimum.keys()),
        "repeated": len(found) - len(reports),
        "late": sum(delay > 0 for delay in delays),
        "early": sum(delay < 0 for delay in delays),
        "delay": sum(delays) / len(delays) if delays else 0.0,
        "delay_most": max(delays, default=0),
    }


def _summed(rows: Rows) -> Rows:
    """One row for all random sets of a peer; the others as they are."""
    summed = [row for row in rows if row["relations"] != "sets at random"]
    for peer in PEERS:
        drawn = [
            row
            for row in select(rows, relations="sets at random", peer=peer)
            if "refused" not in row
        ]
        if drawn:
            total = max(sum(row["possible"] for row in drawn), 1)
            summed.append(
                {
                    "relations": f"{len(select(rows, relations='sets at random')) // len(PEERS)} "
                    "more sets",
                    "peer": peer,
                    **{key: sum(row[key] for row in drawn)
                       for key in ("possible", "missing", "false", "repeated", "late")},
                    "delay": sum(row["delay"] * row["possible"] for row in drawn) / total,
                    "delay_most": max(row["delay_most"] for row in drawn),
                }
            )  # fmt: skip
    return summed


def tables(rows: Rows) -> str:
    """Mean delays."""
    summed = _summed(rows)
    for row in summed:
        row["shown"] = (
            None
            if "refused" in row
            else (
                "0" if not row["late"] else f"{row['delay']:.2f} ({row['late']}/{row['possible']})"
            )
        )
    return (
        "Mean ticks from the earliest possible report to the method's own; in brackets how many "
        "matches are late, of how many (*cannot*: the method does not have the relation):\n\n"
        + pivot([row for row in summed if row["shown"]] + [r for r in summed if not r["shown"]],
                ["relations"], "shown", show=lambda text: str(text) if text else "cannot")
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Whether piestream is at the optimum everywhere."""
    mine = select(rows, peer="piestream")
    wrong = [r for r in mine if r["missing"] + r["false"] + r["repeated"] + r["late"] + r["early"]]
    verdict = (
        f"piestream reports every match of all {len(mine)} sets at the earliest possible instant: "
        f"{sum(row['possible'] for row in mine):,} reports, none late, missing, false or repeated"
        if not wrong
        else f"**piestream is not at the optimum for {len(wrong)} sets**: "
        + ", ".join(str(names(Relation(row["bits"]))) for row in wrong[:5])
    )
    others = []
    for peer in PEERS[1:]:
        told = [row for row in select(rows, peer=peer) if "refused" not in row]
        late = sum(row["late"] for row in told)
        total = sum(row["possible"] for row in told)
        bad = sum(row["missing"] + row["false"] + row["repeated"] for row in told)
        others.append(
            f"{title(peer)} is late in {late:,} of {total:,} reports"
            + (f" ({bad:,} missing, false or repeated)" if bad else "")
        )
    return (
        f"**What it means.** {verdict}. {'; '.join(others)}. A relation by itself is "
        "decided at the third of its four endpoints by TPStream and by the paper's automata alike, "
        "and nobody can be earlier. They differ on sets: the automata of single relations wait "
        "until one of them is certain, also where all that is still possible is allowed. "
        "TPStream's prefix groups (in the corrected form) find the complete groups, which are all "
        "there is to find. ISEQ waits for the last end.\n\n"
        "**Where we lose.** Nowhere in earliness: no method can be earlier than the optimum. "
        "TPStream, corrected, is as early wherever it knows the relations."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A line a set, a mark a peer."""
    axes = figure.subplots()
    summed = _summed(rows)
    sets = list(dict.fromkeys(row["relations"] for row in summed))[::-1]
    marks = {"piestream": ("o", "#d62728", 7), "tpstream": ("^", "#1f77b4", 5),
             "tpstream-published": ("v", "#17becf", 5), "piestream-paper": ("D", "#2ca02c", 4),
             "iseq": ("P", "#9467bd", 5)}  # fmt: skip
    for place, (peer, (mark, colour, width)) in enumerate(marks.items()):
        told = [row for row in select(summed, peer=peer) if "refused" not in row]
        axes.plot([row["delay"] for row in told],
                  [sets.index(row["relations"]) + 0.12 * (2 - place) for row in told],
                  mark, color=colour, markersize=width, label=title(peer))  # fmt: skip
    axes.set_yticks(range(len(sets)), sets)
    axes.set(xlabel="mean delay of the report after the earliest possible one, ticks")
    axes.grid(True, axis="both", linewidth=0.4, alpha=0.5)
    figure.legend(loc="outside lower center", ncols=3)


EXPERIMENT = Experiment(
    "earliness",
    "Earliness: reports against the earliest possible",
    "When does each method report a match, and when could it have been known at the earliest, "
    "whatever comes next?",
    "Two symbols on a restless stream on which all relations occur. For each pair of intervals and "
    "each instant, all continuations of the stream are tried; the pair is certain from the first "
    "instant at which its relation is an allowed one in all of them. Each relation alone, sets "
    "with a name, sets at random (`--full`: every 31st of all 32,767).",
    rows,
    tables,
    meaning,
    draw,
    (8.0, 7.5),
)
