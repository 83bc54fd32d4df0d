"""First use on a machine, first use in a process, and what an import takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from experiments.harness.experiment import Experiment
from experiments.harness.isolation import fresh_interpreter
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import load
from experiments.harness.tables import column_table, select
from experiments.streams import SEED

_COLUMNS = ("case", "runs", "process_wall_s", "process_cpu_s", "inside_s")

_FIRST_MATCH = """
import json, time
begin = time.perf_counter()
import polars as pl, piestream as ps
query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a overlaps b WITHIN 9")
found = query.run(pl.DataFrame({"t": [1, 2, 3, 4], "x": [0, 2, 2, 0], "y": [0, 0, 2, 2]}))
assert len(found) == 1, found
print(json.dumps({"inside_s": time.perf_counter() - begin, "process_cpu_s": time.process_time()}))
"""
_IMPORT = """
import json, time
begin = time.perf_counter()
import {module}
print(json.dumps({{"inside_s": time.perf_counter() - begin,
                   "process_cpu_s": time.process_time()}}))
"""


def rows(size: Size) -> Iterator[Row]:
    """With an empty cache of compiled loops, with a full one, and imports."""
    with TemporaryDirectory() as folder:
        # the tests, which only see whether this runs, spare themselves the compilation
        cache = {} if size is Size.TINY else {"NUMBA_CACHE_DIR": folder}
        yield _quickest("first match, nothing compiled", _FIRST_MATCH, 1, **cache)
        yield _quickest("first match, compiled", _FIRST_MATCH, size.of(1, 3, 7), **cache)
    for module in ("piestream", "sys"):
        yield _quickest(f"import {module}", _IMPORT.format(module=module), size.of(1, 5, 15))


def _quickest(case: str, program: str, runs: int, **environment: str) -> Row:
    """The quickest of several processes."""
    found = []
    for _ in range(runs):
        before = time.perf_counter()
        row = fresh_interpreter(program, **environment)
        found.append({"process_wall_s": time.perf_counter() - before, **row})
    best = min(found, key=lambda row: row["inside_s"])
    return {"case": case, "runs": runs, "seed": SEED, **best, "load": load()}


def tables(rows: Rows) -> str:
    """All of them."""
    return column_table(_COLUMNS, rows)


def conclusions(rows: Rows) -> str:
    """What compiling takes, and what the import adds to the bare interpreter."""
    empty, full, package, bare = (select(rows, case=case)[0] for case in (
        "first match, nothing compiled", "first match, compiled", "import piestream", "import sys"))  # fmt: skip
    compiling = empty["process_cpu_s"] - full["process_cpu_s"]
    return (
        f"**First use.** Compiling takes {compiling:.1f} s of CPU time, once a machine. In a process that "
        f"finds the loops compiled the first match is there after {full['inside_s']:.2f} s. "
        f"`import piestream` adds {1e3 * (package['process_cpu_s'] - bare['process_cpu_s']):.0f} ms of CPU "
        "time to the bare interpreter."
    )


EXPERIMENT = Experiment(
    "cold_start",
    "First use on a machine and in a process",
    "How long until the first match?",
    "Each run is an interpreter of its own; the quickest counts. *nothing compiled*: Numba's cache is "
    "empty, so that every loop is compiled; *compiled*: it is not. `process wall s` counts from before "
    "the interpreter's start, `inside s` from its first statement.",
    rows,
    tables,
    conclusions,
)
