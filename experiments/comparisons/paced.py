"""Every method fed with events that fall due at a rate, and how late its matches were."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numba import njit

from experiments import engine
from experiments.harness.measure import Row
from experiments.pace import AT_ONCE, DONE, DUE, await_due, even_pace
from experiments.peers import OURS, PEERS, Reports
from experiments.peers.pattern import Ints
from experiments.streams import Case

__all__ = ["FRAMES", "NOTHING", "SESSION", "Fed", "feeding", "lateness"]

#: A session that is given every event by itself; one that is given all that are due; no method.
SESSION, FRAMES, NOTHING = "session, one event at a time", "session, all events due", "no method"
#: So many events that are due are pushed one by one, more as a frame.
_FEW = 64
#: A thread sleeps while the next event is further away than this, in nanoseconds.
_SLACK = 400_000


@dataclass(frozen=True)
class Fed:
    """What came out: how many matches each event decided, and when they were out."""

    pace: Ints
    #: Rows of the deciding events, the nanoseconds at which so many matches of them were out.
    decided: Ints
    out_at: Ints
    count: Ints

    @classmethod
    def at_once(cls, pace: Ints, reports: Ints) -> Fed:
        """Of a method that reports each match at the event that decides it."""
        rows, count = np.unique(reports, return_counts=True)
        return cls(pace, rows, pace[DONE, rows], count)


def lateness(fed: Fed, first: int, events: int) -> Row:
    """How late the matches were that these events decided, and whether the method kept up.

    A match is late by the time from the instant at which its deciding event was *due* to that at
    which it is out, so that what waits in the queue is late too.

    >>> pace = np.array([[0, 100, 200], [150, 250, 350]])
    >>> row = lateness(Fed.at_once(pace, np.array([1, 2, 2])), 0, 3)
    >>> row["p50"], row["matches"], row["deciding"], row["behind"]
    (1.5e-07, 3, 2, 1.5e-07)
    """
    due, done = fed.pace
    last = first + events - 1
    counted = (fed.decided >= first) & (fed.decided <= last)
    late = (fed.out_at - due[fed.decided])[counted]
    order = np.argsort(late)
    reached = np.cumsum(fed.count[counted][order])
    row: Row = {
        "matches": int(reached[-1]) if len(reached) else 0,
        "deciding": len(np.unique(fed.decided[counted])),
        "behind": float(done[last] - due[last]) / 1e9,
        "achieved": (events - 1) / float(done[last] - due[first]) * 1e9,
    }
    if len(reached):
        for name, share in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0)):
            place = min(np.searchsorted(reached, share * reached[-1]), len(reached) - 1)
            row[name] = float(late[order][place]) / 1e9
    return row


def feeding(
    case: Case, peer: str, rate: float, before: int, events: int, runs: int
) -> Callable[[], Row]:
    """Runs in which a method is fed at a rate, after ``before`` events that come at once.

    The stream goes on after the events that count, for methods that report at the end of an
    interval. Code is loaded beforehand. Of several runs the one counts whose matches were least
    late: other processes delayed the others.
    """
    ways: dict[str, Callable[[Case, Ints], Fed]] = {
        SESSION: partial(_pushed, most=1), FRAMES: partial(_pushed, most=1 << 16),
        OURS: _detected, NOTHING: _let_pass,
    }  # fmt: skip
    run = ways.get(peer) or partial(_streamed, peer=peer)
    short = case.head(2_000)
    run(short, even_pace(short.events, 1e9))
    case.bits  # noqa: B018

    def once() -> Row:
        pace = even_pace(case.events - before, rate, before)
        return lateness(run(case, pace), before, events)

    return lambda: min((once() for _ in range(runs)), key=lambda row: row.get("p99", 0.0))


def _streamed(case: Case, pace: Ints, peer: str) -> Fed:
    """Another method: its compiled loop waits for each event."""
    times, masks = case.bits
    found = PEERS[peer].run(case.pattern, times, masks, pace=pace).matches
    reports = np.searchsorted(times, found[:, 0])
    if PEERS[peer].reports is not Reports.COMPLETION:
        return Fed.at_once(pace, reports)
    starts = [f"s{at}" for at in range(case.pattern.n_symbols)]
    earliest = PEERS["tpstream"].run(case.pattern, times, masks).matches
    known = pl.DataFrame(earliest, schema=["decided", *starts])
    reported = pl.DataFrame(found[:, 1:], schema=starts).with_columns(pl.Series("report", reports))
    both = reported.join(known, on=starts).select("decided", "report")
    groups = both.group_by("decided", "report").len()
    decided = np.searchsorted(times, groups["decided"].to_numpy())
    return Fed(pace, decided, pace[DONE, groups["report"].to_numpy()], groups["len"].to_numpy())


def _let_pass(case: Case, pace: Ints) -> Fed:
    """No method: what of the lateness is the clock's and the machine's own."""
    _wait(pace)
    return Fed.at_once(pace, np.arange(case.events))


@njit(cache=True, nogil=True)
def _wait(pace: Ints) -> None:
    clock = np.zeros(3, np.int64)
    for row in range(pace.shape[1] + 1):
        await_due(pace, row, clock)


def _detected(case: Case, pace: Ints) -> Fed:
    """piestream's detector, in a compiled loop that gives it one event after another."""
    binding = engine.bind_query(case.query, case.frame.schema)
    times, masks = case.bits
    found = engine.detect_paced(binding, times, masks, pace)
    return Fed.at_once(pace, np.searchsorted(times, found[:, 0]))


def _pushed(case: Case, pace: Ints, most: int) -> Fed:
    """A session: events that are due are pushed, at most so many; few of them one by one."""
    session = case.query.open()
    frame = case.frame
    columns = frame.columns
    events = [dict(zip(columns, row, strict=True)) for row in frame.iter_rows()]
    due, done, clock = pace[DUE].tolist(), pace[DONE], time.monotonic_ns
    begin = int(np.searchsorted(pace[DUE], AT_ONCE, side="right"))
    session.push(frame[: max(begin, 1)])  # at once, so that the session is where all others are
    reports: list[tuple[int, Any]] = []
    zero = clock()
    row = max(begin, 1)
    done[:row] = clock() - zero
    while row < len(events):
        passed = clock() - zero
        while passed < due[row]:
            if due[row] - passed > _SLACK:
                time.sleep((due[row] - passed - _SLACK) / 1e9)
            passed = clock() - zero
        waiting = _waiting(pace[DUE], row, passed, most) if most > 1 else 1
        if waiting > _FEW:
            found = session.push(frame[row : row + waiting])
            done[row : row + waiting] = clock() - zero
            if len(found):
                reports.append((len(found), found["detected_at"].to_numpy()))
            row += waiting
            continue
        for at in range(row, row + waiting):
            matches = session.push(events[at])
            done[at] = clock() - zero
            if matches:
                reports.append((len(matches), matches[-1]["detected_at"]))
        row += waiting
    each = [np.full(count, report) if np.isscalar(report) else report for count, report in reports]
    known = np.concatenate([np.zeros(0, np.int64), *each])
    return Fed.at_once(pace, np.searchsorted(case.bits[0], known))


def _waiting(due: Ints, row: int, passed: int, most: int) -> int:
    """How many events from this row on were due by now."""
    return min(int(np.searchsorted(due[row : row + most], passed, side="right")), most)
