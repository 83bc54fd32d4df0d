"""TPStream's latency in application time: what reporting at the earliest instant gains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import markdown_table, one, select
from experiments.peers import FRAME, prepared, title
from experiments.peers.pattern import Ints, Pattern
from experiments.streams import SEED, synthetic
from piestream.relations import Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("piestream", "tpstream", "piestream-paper")
#: What all are compared with: it reports when everything has ended.
LAST = "iseq"
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
            complete = _reports(prepared(case, LAST)().matches)
            for peer in METHODS:
                reports = _reports(prepared(case, peer, FRAME)().matches)
                both = [starts for starts in complete if starts in reports]
                row: Row = {"relations": name, "ratio": ratio, "peer": peer, "events": events,
                             "matches": len(both), "seed": SEED}  # fmt: skip
                if both:
                    gained = np.array([complete[s] - reports[s] for s in both], dtype=float)
                    whole = np.array([complete[s] - min(s) for s in both], dtype=float)
                    row |= {
                        "gain": float(gained.mean()),
                        # The dissertation's: detection time over that of ISEQ.
                        "relative": float(1 - gained.sum() / whole.sum()),
                    }
                yield row


def tables(rows: Rows) -> str:
    """Gains and relative detection times."""
    head = ["relation of A to B", "ratio A:B", "matches", *(f"gain, {title(p)}" for p in METHODS),
            "relative detection time, piestream"]  # fmt: skip
    lines = []
    for name in RELATIONS:
        for ratio in dict.fromkeys(row["ratio"] for row in rows):
            here = select(rows, relations=name, ratio=ratio)
            gains = [one(here, "gain", peer=peer) for peer in METHODS]
            relative = one(here, "relative", peer="piestream")
            lines.append([
                name, ratio, here[0]["matches"],
                *("–" if gain is None else f"{gain:.1f} s" for gain in gains),
                "–" if relative is None else f"{relative:.0%}",
            ])  # fmt: skip
    return markdown_table(head, lines)


def conclusions(rows: Rows) -> str:
    """Where something is gained, and where piestream gains more or less than another method."""
    mine = [row for row in select(rows, peer="piestream") if "gain" in row]
    known = [row["relative"] for row in mine]
    nothing = _relations(row for row in mine if row["gain"] <= _SAME)
    texts = [
        f"Detection takes between {min(known):.0%} and {max(known):.0%} of {title(LAST)}'s time from "
        f"the first start on; nothing is gained on {nothing or 'no relation'}."
    ]
    for peer in METHODS[1:]:
        more: Rows = []
        less: Rows = []
        for row in mine:
            where = {"relations": row["relations"], "ratio": row["ratio"]}
            other = one(rows, "gain", peer=peer, **where)
            if other is not None and abs(row["gain"] - other) > _SAME:
                (more if row["gain"] > other else less).append(row)
        texts.append(
            f"Against {title(peer)}: earlier on {_relations(more) or 'none'}; later on "
            f"{_relations(less) or 'none'}; the same elsewhere."
        )
    return "**Gain.** " + " ".join(texts)


#: Mean gains that differ by less than this, in seconds, are the same.
_SAME = 1e-9


def _relations(rows: Iterable[Row]) -> str:
    return ", ".join(dict.fromkeys(row["relations"] for row in rows))


def draw(rows: Rows, figure: Figure) -> None:
    """Bars of the gains, and relative times."""
    left, right = figure.subplots(1, 2, sharey=True)
    ratios = list(dict.fromkeys(row["ratio"] for row in rows))
    relations = list(RELATIONS)[::-1]
    height = 0.8 / len(ratios)
    for place, ratio in enumerate(ratios):
        for axes, value in ((left, "gain"), (right, "relative")):
            widths = [one(rows, value, peer="piestream", ratio=ratio, relations=name) or 0
                      for name in relations]  # fmt: skip
            offset = (place - (len(ratios) - 1) / 2) * height
            axes.barh([at - offset for at in range(len(relations))], widths, height,
                      label=f"A:B = {ratio}")  # fmt: skip
    left.set_yticks(range(len(relations)), relations)
    left.set(xlabel=f"mean gain over {title(LAST)}, s")
    right.set(xlabel=f"detection time relative to {title(LAST)}")
    for axes in (left, right):
        axes.grid(False, axis="y")
    legend_below(figure)


EXPERIMENT = Experiment(
    "gain",
    "TPStream, Fig. 7a, and the dissertation's Fig. 5.11: latency in application time",
    "How much earlier than at completion is a match reported, for each relation?",
    "Two symbols A (10–100 s) and B (half to twice as long), gaps 10–50 s, W = 1,000 s. Gain: "
    "report of ISEQ minus report of the method, the mean over all matches; relative detection "
    "time: from the first start to the report, over the same for ISEQ (sums over all matches).",
    rows,
    tables,
    conclusions,
    draw,
    (9.5, 4.2),
    methods=METHODS,
)
