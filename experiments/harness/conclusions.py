"""What the numbers of one run say, in words made from these numbers.

Times are compared warm with warm or cold with cold (see `measure.PROTOCOL`), and only between
methods that were given the same form of the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from experiments.harness.measure import Row, Rows
from experiments.harness.tables import by_input, markdown_table, part, select
from experiments.peers import OURS, PEERS, Reports, title

__all__ = [
    "EVEN",
    "Comparison",
    "agreement",
    "compare",
    "ended",
    "exponent",
    "factor",
    "growth",
    "plans_taken",
    "ratio",
    "standing",
]

#: Two times that differ by less than this factor are called even: runs differ by as much.
EVEN = 1.05

#: The values of a row that can be compared with those of the same name.
_WARM, _COLD = "cpu_s", "cold_cpu_s"


@dataclass(frozen=True)
class Comparison:
    """A method against piestream in one case: ``times`` above 1 means that piestream is quicker."""

    case: tuple[Any, ...]
    peer: str
    times: float
    warm: bool


def ratio(other: Row, mine: Row) -> tuple[float, bool] | None:
    """How many times as long as ``mine`` another row took, and whether that is of warm runs.

    >>> ratio({"cold_cpu_s": 6.0}, {"cpu_s": 1.0, "cold_cpu_s": 2.0})
    (3.0, False)
    """
    for kind in (_WARM, _COLD):
        if mine.get(kind) and other.get(kind):
            return other[kind] / mine[kind], kind == _WARM
    return None


def compare(rows: Rows, index: Sequence[str], ours: str = OURS) -> list[Comparison]:
    """Every other method against ours, case by case; rows of one form of the input."""
    found = []
    for row in rows:
        if row["peer"] == ours:
            continue
        case = tuple(row.get(key) for key in index)
        mine = select(rows, peer=ours, **dict(zip(index, case, strict=True)))
        compared = ratio(row, mine[0]) if mine else None
        if compared:
            found.append(Comparison(case, row["peer"], *compared))
    return found


def factor(times: float) -> str:
    """A ratio as text.

    >>> factor(12.3), factor(1.234), factor(0.0345)
    ('12×', '1.2×', '0.035×')
    """
    return f"{times:.0f}×" if times >= 10 else f"{times:.2g}×"


def standing(rows: Rows, index: Sequence[str]) -> str:
    """Who is quicker, where, and by how much: a table and two sentences for each form of input."""
    parts = []
    wins, losses = [], []
    for form, found in by_input(rows):
        compared = compare(found, index)
        if not compared:
            continue
        parts.append(f"CPU time over piestream's, input *{form}*:\n\n" + _factors(compared, index))
        wins.append(f"Input *{form}*: {_wins(compared, index)}")
        losses.append(f"Input *{form}*: {_losses(compared, index)}")
    if not parts:
        return "**Where piestream wins, and where it loses.** Nothing was compared."
    parts.append("**Where piestream wins.** " + " ".join(wins))
    parts.append("**Where piestream loses.** " + " ".join(losses) + ended(rows, index))
    if plans := plans_taken(rows):
        parts.append(f"**Plans that were measured**, of those tried. {plans}")
    return "\n\n".join(parts)


def _factors(compared: Sequence[Comparison], index: Sequence[str]) -> str:
    """A line for each method."""
    lines = []
    for peer in dict.fromkeys(found.peer for found in compared):
        here = [found for found in compared if found.peer == peer]
        least, most = (pick(here, key=lambda found: found.times) for pick in (min, max))
        lines.append([
            title(peer), len(here), sum(found.warm for found in here),
            f"{factor(least.times)} ({_at(least.case, index)})",
            factor(median(found.times for found in here)),
            f"{factor(most.times)} ({_at(most.case, index)})",
            sum(found.times < 1 / EVEN for found in here),
        ])  # fmt: skip
    head = [
        "method",
        "cases",
        "of them warm",
        "least",
        "median",
        "most",
        "quicker than piestream in",
    ]
    return markdown_table(head, lines)


def _wins(compared: Sequence[Comparison], index: Sequence[str]) -> str:
    """In how many cases no method is quicker, and the time of the next best over piestream's."""
    cases = list(dict.fromkeys(found.case for found in compared))
    next_best = [
        min((found for found in compared if found.case == case), key=lambda found: found.times)
        for case in cases
    ]
    won = [found for found in next_best if found.times > EVEN]
    even = [found for found in next_best if 1 / EVEN <= found.times <= EVEN]
    text = f"piestream is the quickest in {len(won)} of {len(cases)} cases"
    if won:
        least, most = (pick(won, key=lambda found: found.times) for pick in (min, max))
        text += (
            f"; the next best takes {factor(least.times)} its time ({title(least.peer)} at "
            f"{_at(least.case, index)})"
        )
        if len(won) > 1:
            text += f" to {factor(most.times)} ({title(most.peer)} at {_at(most.case, index)})"
    return text + (f"; even with the best in {len(even)}." if even else ".")


def _losses(compared: Sequence[Comparison], index: Sequence[str]) -> str:
    """Who is quicker than piestream, where most, and by how much."""
    lost: dict[str, list[Comparison]] = {}
    for found in compared:
        if found.times < 1 / EVEN:
            lost.setdefault(found.peer, []).append(found)
    if not lost:
        return "nowhere."
    texts = []
    for peer, here in lost.items():
        worst = min(here, key=lambda found: found.times)
        cases = sum(found.peer == peer for found in compared)
        texts.append(
            f"to {title(peer)} in {len(here)} of {cases} cases, by up to "
            f"{factor(1 / worst.times)} ({_at(worst.case, index)})"
        )
    return "; ".join(texts) + "."


def _at(case: Sequence[Any], index: Sequence[str]) -> str:
    return ", ".join(f"{key} = {part(value)}" for key, value in zip(index, case, strict=True))


def ended(rows: Rows, index: Sequence[str]) -> str:
    """Which methods were ended, where, and at which limit; empty if none was.

    >>> ended([{"n": 18, "peer": "tpstream", "input": "packed bits", "over": "3 s"}], ["n"])
    ' Ended at a limit: TPStream, corrected (packed bits) at n = 18 (> 3 s).'
    """
    texts = [
        f"{title(row['peer'])} ({row['input']}) at "
        f"{_at([row.get(key) for key in index], index)} (> {row['over']})"
        for row in rows
        if "over" in row
    ]
    failed = [f"{title(row['peer'])}: {row['failed']}" for row in rows if "failed" in row]
    return (f" Ended at a limit: {'; '.join(texts)}." if texts else "") + (
        f" Failed: {'; '.join(failed)}." if failed else ""
    )


def plans_taken(rows: Rows) -> str:
    """The plans of methods that have several, and in how many cases each was the quickest.

    >>> rows = [{"peer": "polars", "plan": "written"}, {"peer": "polars", "plan": "written"}]
    >>> plans_taken(rows)
    'Polars, inequality joins: written (2).'
    """
    taken: dict[str, Counter[str]] = {}
    for row in rows:
        if "plan" in row:
            taken.setdefault(row["peer"], Counter())[row["plan"]] += 1
    return " ".join(
        f"{title(peer)}: {', '.join(f'{plan} ({count})' for plan, count in plans.most_common())}."
        for peer, plans in taken.items()
    )


def exponent(xs: Sequence[float], ys: Sequence[float | None]) -> float | None:
    """The slope of ``log y`` over ``log x`` by least squares: y grows like x to this power.

    >>> exponent([1, 2, 4], [3, 12, 48])
    2.0
    """
    kept = [(x, y) for x, y in zip(xs, ys, strict=True) if x > 0 and y and y > 0]
    if len(kept) < 2:
        return None
    logs = np.log(np.array(kept, dtype=float))
    return round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 2) + 0.0


def growth(rows: Rows, x: str, least: float = 0) -> str:
    """With which power of ``x`` the time of each method grows, from ``least`` on.

    All points of a fit are warm, or all are cold.
    """
    texts = []
    for form, found in by_input(rows):
        powers = []
        for peer in dict.fromkeys(row["peer"] for row in found):
            points = [row for row in select(found, peer=peer) if row[x] >= least]
            kind = _WARM if sum(bool(row.get(_WARM)) for row in points) > 1 else _COLD
            power = exponent([row[x] for row in points], [row.get(kind) for row in points])
            if power is not None:
                powers.append(f"{title(peer)} {power:g}" + ("" if kind == _WARM else " (cold)"))
        texts.append(f"*{form}*: {', '.join(powers) or 'too few points'}")
    return "; ".join(texts)


def agreement(rows: Rows, index: Sequence[str]) -> str:
    """Whether methods that report at the same instants count the same matches."""
    differ, counted = [], 0
    for case in dict.fromkeys(tuple(row.get(key) for key in index) for row in rows):
        counts: dict[Reports, set[int]] = {}
        for row in select(rows, **dict(zip(index, case, strict=True))):
            reports = PEERS[row["peer"]].reports
            if "matches" in row and reports is not Reports.UNKNOWN:
                counts.setdefault(reports, set()).add(row["matches"])
        counted += len(counts)
        differ += [
            f"{_at(case, index)}, {reports.value}: {sorted(found)}"
            for reports, found in counts.items()
            if len(found) > 1
        ]
    if differ:
        return f"**Numbers of matches differ**: {'; '.join(differ)}."
    if not counted:
        return "No matches were counted."
    last = [row for row in rows if "matches" in row][-1]
    here = select(rows, **{key: last.get(key) for key in index})
    texts = [
        f"{part(count)} {reports.value}" for reports, count in _first_of_each_kind(here).items()
    ]
    return (
        "Methods that report at the same instants find the same number of matches in every case; "
        f"in the last one that was counted {', '.join(texts)}."
    )


def _first_of_each_kind(rows: Rows) -> dict[Reports, int]:
    """The matches in one case, by the instants at which methods report."""
    found: dict[Reports, int] = {}
    for row in rows:
        reports = PEERS[row["peer"]].reports
        if "matches" in row and reports is not Reports.UNKNOWN:
            found.setdefault(reports, row["matches"])
    return found
