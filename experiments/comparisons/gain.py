"""TPStream's latency in application time: what reporting at the earliest instant gains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from experiments.baselines.pattern import Ints, Pattern
from experiments.experiment import Experiment, one, select, table
from experiments.measure import Row, Rows, Size
from experiments.peers import title
from experiments.streams import SEED, synthetic
from piestream.relations import Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = ("piestream", "tpstream", "piestream-paper")
_WINDOW = 1_000

#: Relations of A to B, as in the papers; the inverse ones mirror them. The last are sets.
RELATIONS: Mapping[str, Relation] = {
    "before": Relation.BEFORE,
    "meets": Relation.MEETS,
    "overlaps": Relation.OVERLAPS,
    "starts": Relation.STARTS,
    "during": Relation.DURING,
    "equals": Relation.EQUALS,
    "finishes": Relation.FINISHES,
    "{overlaps, finished-by, contains}": (
        Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS
    ),
    "{starts, equals, started-by}": Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY,
    "{during, finishes, overlapped-by}": (
        Relation.DURING | Relation.FINISHES | Relation.OVERLAPPED_BY
    ),
}
#: Lengths of B: from half of A's to twice.
RATIOS = {"2:1": (5, 50), "1:1": (10, 100), "1:2": (20, 200)}


def _reports(matches: Ints) -> dict[tuple[int, ...], int]:
    return {tuple(starts): report for report, *starts in matches.tolist()}


def rows(size: Size) -> Iterator[Row]:
    """A row a relation, ratio of lengths and peer."""
    events = size.of(5_000, 60_000, 1_000_000)
    for ratio, length in size.of({"1:1": RATIOS["1:1"]}, RATIOS, RATIOS).items():
        for name, relations in RELATIONS.items():
            pattern = Pattern(2, ((0, 1, relations),), _WINDOW)
            case = synthetic(pattern, events, situation=((10, 100), length))
            complete = _reports(case.matches("iseq"))
            for peer in PEERS:
                reports = _reports(case.matches(peer))
                both = [starts for starts in complete if starts in reports]
                told: Row = {"relations": name, "ratio": ratio, "peer": peer, "events": events,
                             "matches": len(both), "seed": SEED}  # fmt: skip
                if both:
                    gained = np.array([complete[s] - reports[s] for s in both], dtype=float)
                    whole = np.array([complete[s] - min(s) for s in both], dtype=float)
                    told |= {
                        "gain": float(gained.mean()),
                        # The dissertation's: detection time over that of ISEQ.
                        "relative": float(1 - gained.sum() / whole.sum()),
                    }
                yield told


def tables(rows: Rows) -> str:
    """Gains and relative detection times."""
    ratios = list(dict.fromkeys(row["ratio"] for row in rows))
    head = ["relation of A to B", "ratio A:B", "matches",
            *(f"gain, {title(p).split(',')[0] if p == 'piestream' else title(p)}" for p in PEERS),
            "relative detection time, piestream"]  # fmt: skip
    lines = []
    for name in RELATIONS:
        for ratio in ratios:
            here = select(rows, relations=name, ratio=ratio)
            gains = [one(here, "gain", peer=peer) for peer in PEERS]
            relative = one(here, "relative", peer="piestream")
            lines.append([
                name, ratio, here[0]["matches"],
                *("–" if gain is None else f"{gain:.1f} s" for gain in gains),
                "–" if relative is None else f"{relative:.0%}",
            ])  # fmt: skip
    return table(head, lines)


def meaning(rows: Rows) -> str:
    """Where gains are, and who has them."""
    mine = [row for row in select(rows, peer="piestream") if "gain" in row]
    more = sorted({
        row["relations"]
        for row in mine
        if row["gain"] > 1e-9
        + (one(rows, "gain", peer="piestream-paper", relations=row["relations"],
               ratio=row["ratio"]) or 0)
    })  # fmt: skip
    less = [
        row["relations"]
        for row in mine
        for peer in ("tpstream", "piestream-paper")
        if row["gain"] + 1e-9
        < (one(rows, "gain", peer=peer, relations=row["relations"], ratio=row["ratio"]) or 0)
    ]
    known = [row["relative"] for row in mine]
    return (
        "**What it means.** Against ISEQ, which reports at the last end, `before` and `meets` gain "
        "the whole length of B, the others what is left of the longer interval when the shorter "
        "ends, `equals` and `finishes` nothing: there nothing is known before the end, by any "
        f"method. Relative detection time lies between {min(known):.0%} and {max(known):.0%}. "
        "For single relations piestream, TPStream and the paper's automata report at the "
        "same instants. On complete groups piestream (and the corrected TPStream) gain more than "
        f"the paper's automata: {', '.join(more) or 'none here'}.\n\n"
        "**Where we lose.** "
        + (f"Later than a peer: {', '.join(less)}." if less else "No peer gains more anywhere.")
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars of the gains, and relative times."""
    left, right = figure.subplots(1, 2, sharey=True)
    ratios = list(dict.fromkeys(row["ratio"] for row in rows))
    names = list(RELATIONS)
    for place, ratio in enumerate(ratios):
        height = 0.8 / len(ratios)
        for axes, value in ((left, "gain"), (right, "relative")):
            widths = [
                one(rows, value, peer="piestream", ratio=ratio, relations=n) or 0 for n in names
            ]
            axes.barh([at + place * height for at in range(len(names))], widths, height,
                      label=f"A:B = {ratio}")  # fmt: skip
    left.set_yticks(range(len(names)), names)
    left.set(xlabel="mean gain over ISEQ, s")
    right.set(xlabel="detection time relative to ISEQ")
    left.legend()


EXPERIMENT = Experiment(
    "gain",
    "TPStream, Fig. 7a, and the dissertation's Fig. 5.11: latency in application time",
    "How much earlier than at completion is a match reported, for each relation?",
    "Two symbols A (10–100 s) and B (half to twice as long), gaps 10–50 s, W = 1,000 s. Gain: "
    "report of ISEQ minus report of the method, the mean over all matches; relative detection "
    "time: from the first start to the report, over the same for ISEQ (sums over all matches).",
    rows,
    tables,
    meaning,
    draw,
    (9.5, 4.2),
)
