"""The LNG rollover query of the paper's case study over 100 days of readings, one a second.

``reading_s`` is what Polars alone takes to read the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory

import polars as pl

import piestream as ps
from benchmarks.measure import Row, Scale, Yardstick, compared, timed
from benchmarks.streams import seed
from piestream.generators import rollover

TITLE = "LNG rollover"
COLUMNS = ("source", "relation", "events", "matches", "wall_s", "cpu_s", "reading_s", "events_per_s",
           "ratio_to_yardstick")  # fmt: skip


def query(precise: bool, source: str = "tank") -> ps.Query:
    """With ``followed-by``, or with ``before`` in its place."""
    then = "followed-by" if precise else "before"
    return ps.query(
        f"FROM {source} ORDER BY ts DEFINE A AS SOBOR > 0 AND BOR < 50, B AS BOR > 100, "
        "C AS SOBOR < 0 AND BOR < 50 AND BOR > 0, D AS DD < 1 "
        f"PATTERN A {then} B AND B {then} C AND B during;starts;overlaps D "
        f"AND D overlaps;finished-by;contains C AND A {then};meets;overlaps D WITHIN 10000"
    )


def rows(scale: Scale) -> Iterator[Row]:
    """One row a source and relation."""
    days, planted = scale.of((1, 1), (10, 9), (100, 95))
    frame = rollover(days=days, seed=seed, rollovers=planted)
    yardstick = Yardstick(frame)
    with TemporaryDirectory() as folder:
        path = f"{folder}/tank.parquet"
        frame.write_parquet(path)
        for precise in (True, False):
            relation = "followed-by" if precise else "before"
            yield compared(partial(query(precise).run, frame), scale, len(frame), yardstick,
                           source="memory", relation=relation)  # fmt: skip
            row = compared(query(precise, f"'{path}'").run, scale, len(frame), yardstick,
                           source="parquet", relation=relation)  # fmt: skip
            reading, _ = timed(partial(pl.read_parquet, path), scale)
            yield {**row, "reading_s": min(reading.cpu)}
