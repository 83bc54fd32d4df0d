"""What a stream counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Statistics:
    """What a session has processed and what it holds now.

    ``events`` were processed. ``late`` ones were dropped because they came after the watermark had
    passed them, and ``ties`` because another event of their partition has the same time; ``waiting``
    ones are held back until the watermark passes them. ``matches`` were reported (with EMIT ON BOTH
    each counts once); ``left_out`` ones WHERE did not let pass, of those that were looked at: what the
    equalities of WHERE that are join keys exclude is not enumerated. ``partitions``, ``live_intervals`` and ``state_bytes`` are what is in memory.
    Once the input has ended, ``incomplete`` ones are the rows that are missing because intervals are
    open: those that ``at_end="close"`` would have added.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> matches = session.push([{"t": 1, "x": 5}, {"t": 2, "x": 0}, {"t": 3, "x": 7}])
    >>> session.statistics.events, session.statistics.matches, session.statistics.live_intervals
    (3, 2, 2)
    >>> session.close()
    []
    >>> session.statistics.incomplete
    0
    """

    events: int = 0
    late: int = 0
    ties: int = 0
    waiting: int = 0
    matches: int = 0
    left_out: int = 0
    partitions: int = 0
    live_intervals: int = 0
    state_bytes: int = 0
    incomplete: int = 0
