"""Earliness: the report of each method against the earliest possible one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from random import Random
from typing import TYPE_CHECKING

from experiments.comparisons.futures import certain, runs
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import part, pivot, select
from experiments.peers import FRAME, PEERS, UnsupportedPatternError, prepared, title
from experiments.peers.pattern import NEIGHBOURS, Pattern
from experiments.streams import SEED, of_bits, restless
from piestream.relations import ALLEN, Relation, names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("piestream", "tpstream", "tpstream-published", "piestream-paper", "iseq")

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
    "Fig. 4's six": NEIGHBOURS,
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
    """A row a set of relations and method."""
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
        case = of_bits(Pattern(2, ((0, 1, relations),), _WINDOW), times, masks)
        for peer in METHODS:
            about: Row = {"relations": name, "bits": int(relations), "peer": peer, "seed": SEED}
            try:
                found = prepared(case, peer, FRAME)().matches.tolist()
            except UnsupportedPatternError as refusal:
                yield {**about, "refused": str(refusal)}
                continue
            yield {**about, "events": events, **_against(optimum, found)}


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
    """One row for all random sets of a method; the others as they are."""
    summed = [row for row in rows if row["relations"] != "sets at random"]
    for peer in METHODS:
        everything = select(rows, relations="sets at random", peer=peer)
        drawn = [row for row in everything if "refused" not in row]
        if not drawn:
            continue
        total = max(sum(row["possible"] for row in drawn), 1)
        counts = ("possible", "missing", "false", "repeated", "late")
        summed.append({
            "relations": f"{len(everything)} more sets", "peer": peer,
            **{key: sum(row[key] for row in drawn) for key in counts},
            "delay": sum(row["delay"] * row["possible"] for row in drawn) / total,
            "delay_most": max(row["delay_most"] for row in drawn),
        })  # fmt: skip
    return summed


def tables(rows: Rows) -> str:
    """Mean delays."""
    return (
        "Mean ticks from the earliest possible report to the method's own; in brackets how many "
        "matches are late, of how many (*cannot*: the method does not have the relation):\n\n"
        + pivot(_summed(rows), ["relations"], _delay, measured="delay")
    )


def _delay(row: Row) -> str:
    return f"{row['delay']:.2f} ({row['late']}/{row['possible']})" if row["late"] else "0"


def conclusions(rows: Rows) -> str:
    """Which methods are at the optimum, which are late, and on how many sets."""
    texts = []
    for peer in METHODS:
        found = [row for row in select(rows, peer=peer) if "refused" not in row]
        total = sum(row["possible"] for row in found)
        faults = {
            fault: sum(row[fault] for row in found)
            for fault in ("late", "early", "missing", "false", "repeated")
        }
        named = ", ".join(f"{part(count)} {fault}" for fault, count in faults.items() if count)
        sets = sum(any(row[fault] for fault in faults) for row in found)
        texts.append(
            f"- {title(peer)}: {part(total)} possible reports of {part(len(found))} sets; "
            + (
                f"{named}, on {part(sets)} sets"
                if named
                else "each at the earliest possible instant"
            )
        )
    return "**Reports.**\n\n" + "\n".join(texts)


def draw(rows: Rows, figure: Figure) -> None:
    """A line a set, a mark a method."""
    axes = figure.subplots()
    summed = _summed(rows)
    sets = list(dict.fromkeys(row["relations"] for row in summed))[::-1]
    for place, peer in enumerate(METHODS):
        found = [row for row in select(summed, peer=peer) if "refused" not in row]
        colour, marker = PEERS[peer].style
        axes.plot([row["delay"] for row in found],
                  [sets.index(row["relations"]) + 0.16 * (2 - place) for row in found],
                  linestyle="", color=colour, marker=marker, markersize=5, label=title(peer))  # fmt: skip
    axes.set_yticks(range(len(sets)), sets)
    axes.set_ylim(-0.7, len(sets) - 0.3)
    axes.set(xlabel="mean delay of the report after the earliest possible one, ticks")
    legend_below(figure, 3)


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
    conclusions,
    draw,
    (8.0, 7.5),
    methods=METHODS,
)
