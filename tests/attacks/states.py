"""Snapshots with a right checksum and wrong content: refused, or worked on without harm.

Of each state some words, lengths or bytes are changed, the checksum is made right again, and the
session is opened, pushed into, queried and closed.
"""

from __future__ import annotations

import random
import resource
from functools import cache

import numpy as np
import polars as pl

import piestream as ps
from piestream.engine import snapshot as form
from tests.attacks.workers import AttackError, main

_PATTERNS = (
    "DEFINE a AS x > 0, b AS x <= 0 PATTERN a before b WITHIN 40 RETURN a.ts, b.ts",
    "DEFINE a AS x > 0, b AS y > 0, c AS y <= 0 "
    "PATTERN b.te - a.te >= 3 AND a.ts - c.te < 9 AND b before c WITHIN 60",
    "DEFINE a AS x > 0, b AS y > 0 PATTERN a overlaps;during;starts;equals b WITHIN 60",
    "DEFINE a AS x > 0 AT LEAST 2, b AS y > 0, c AS x + y > 1 "
    "PATTERN a before;overlaps b AND b before;during;overlaps;contains c WITHIN 40 EMIT ON BOTH "
    "RETURN a.ts, b.te, AVG(a.v) AS av, LAST(c.w) AS lw, MIN(b.w) AS mw",
    "DEFINE a AS x > 0, b AS y > 0, c AS x + y > 1 PATTERN b before; overlaps a "
    "AND NOT (c after b AND c.ts - a.te <= 9 AND c intersects; after a) WITHIN 40 RETURN a.ts, b.te",
    "DEFINE a AS x > 0, b AS PREV(x) < y PATTERN a contains;meets b WITHIN 30 EMIT ON COMPLETION "
    "RETURN COUNT(a) AS n, FIRST(b.w) AS w",
)
_WORDS = (0, 1, -1, 2, 63, 64, 1 << 20, 1 << 31, 1 << 40, 1 << 50, (1 << 63) - 1, -(1 << 63))


def _frame(draw: np.random.Generator, rows: int, start: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "k": draw.integers(0, 7, rows),
            "t": np.arange(rows) + start,
            "x": draw.integers(0, 2, rows),
            "y": draw.integers(0, 2, rows),
            "v": draw.random(rows),
            "w": [f"w{n}" for n in draw.integers(0, 9, rows)],
        }
    )


@cache
def _states() -> tuple[tuple[ps.Query, bytes], ...]:
    states = []
    for number, pattern in enumerate(_PATTERNS):
        for rows in (1, 9, 400):
            for gap in ("", "MAX GAP 25 "):
                text = f"FROM s PARTITION BY k ORDER BY t {gap}{pattern}"
                query = ps.query(text)
                session = query.open(lateness=5, on_late="drop")
                session.push(_frame(np.random.default_rng(number), rows, 0))
                states.append((query, session.snapshot()))
    return tuple(states)


def _hurt(draw: random.Random, sections: list[bytes]) -> None:
    """Change something in the sections."""
    number = draw.choice([0, 1, 1, 1, 2, 2, 2, 2, 3, 3, *range(len(sections))])
    section = bytearray(sections[number])
    kind = draw.random()
    if number in (1, 2, 3) and len(section) >= 8 and kind < 0.8:
        words = np.frombuffer(bytes(section), "<i8", len(section) // 8).copy()
        for _ in range(draw.choice([1, 1, 1, 2, 8])):
            place = draw.randrange(min(words.size, draw.choice([20, words.size])))
            other = int(words[draw.randrange(words.size)])
            near = int(words[place]) + draw.choice([-64, -8, -2, -1, 1, 2, 8, 64])
            words[place] = draw.choice([*_WORDS, other, near, near]) % (1 << 63)
        section = bytearray(words.tobytes())
    elif kind < 0.9 and section:
        for _ in range(draw.choice([1, 2, 16])):
            section[draw.randrange(len(section))] = draw.randrange(256)
    elif kind < 0.95:
        del section[draw.randrange(len(section) + 1) :]
    else:
        section += bytes(draw.randrange(256) for _ in range(draw.choice([1, 8, 64])))
    sections[number] = bytes(section)


def one(seed: int) -> str:
    """Open a hurt state and use it."""
    draw = random.Random(seed)
    query, state = draw.choice(_states())
    fingerprint, stored = form.sections_of(state)
    sections = [bytes(section) for section in stored]
    for _ in range(draw.choice([1, 1, 2])):
        _hurt(draw, sections)
    hurt = form.with_sections(fingerprint, sections)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        session = query.open(state=hurt)
    except ps.StateError:
        return "refused"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > 4 * len(hurt) + (64 << 20):
        raise AttackError(f"a state of {len(hurt):,} bytes took {grown:,}")
    rows = _frame(np.random.default_rng(seed), 200, 395 + draw.choice([0, 40]))
    try:
        session.push(rows)
        if seed % 2:
            session.advance(700)
            session.snapshot()
            _ = session.statistics
        session.close()
    except (ps.StateError, ps.LateEventError, ps.OrderError, ps.TieError, ps.TimeError) as error:
        return f"opened, then {type(error).__name__}"
    return "opened"


def warm_up() -> None:
    """Compile, and make the states."""
    _states()


if __name__ == "__main__":
    main("tests.attacks.states", one, warm_up=warm_up)
