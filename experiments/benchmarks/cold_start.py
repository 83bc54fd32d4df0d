"""First use on a machine, first use in a process, and what an import takes.

*cold*: Numba's cache is empty, so that every loop is compiled, until the first match is there;
*warm*: a fresh process that finds them compiled. ``compile_s`` is the difference of their CPU time.
*import*: ``import piestream`` alone, and beside it an import that costs nothing. ``wall_s`` counts
from before the interpreter's start, ``inside_s`` from its first statement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.alone import alone
from benchmarks.measure import Row, Scale

TITLE = "Cold and warm start"
COLUMNS = ("case", "runs", "wall_s", "cpu_s", "inside_s", "compile_s")

_FIRST_MATCH = """
import json, time
begin = time.perf_counter()
import polars as pl, piestream as ps
query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a overlaps b WITHIN 9")
found = query.run(pl.DataFrame({"t": [1, 2, 3, 4], "x": [0, 2, 2, 0], "y": [0, 0, 2, 2]}))
assert len(found) == 1, found
print(json.dumps({"inside_s": time.perf_counter() - begin, "cpu_s": time.process_time()}))
"""
_IMPORT = """
import json, time
begin = time.perf_counter()
import {module}
print(json.dumps({{"inside_s": time.perf_counter() - begin,
                   "cpu_s": time.process_time()}}))
"""


def rows(scale: Scale) -> Iterator[Row]:
    """Cold, warm, and imports beside the bare interpreter."""
    with TemporaryDirectory() as folder:
        # the tests, which only see whether this runs, spare themselves the compilation
        cache = {} if scale is Scale.TINY else {"NUMBA_CACHE_DIR": folder}
        cold = _best("cold", _FIRST_MATCH, 1, **cache)
        warm = _best("warm", _FIRST_MATCH, scale.of(1, 3, 7), **cache)
    yield {**cold, "compile_s": cold["cpu_s"] - warm["cpu_s"]}
    yield warm
    for module in ("piestream", "sys"):
        yield _best(f"import {module}", _IMPORT.format(module=module), scale.of(1, 5, 15))


def _best(case: str, program: str, runs: int, **environment: str) -> Row:
    """The quickest of several processes; ``wall_s`` counts from before their start."""
    told = []
    for _ in range(runs):
        before = time.perf_counter()
        row = alone(program, **environment)
        told.append({"case": case, "runs": runs, "wall_s": time.perf_counter() - before, **row})
    return {**min(told, key=lambda row: row["inside_s"]), "load": os.getloadavg()[0]}
