"""Resident memory over a long stream, and beyond the input over a large frame (Linux).

Each case has a process of its own. *flat*: the stream goes through a session in chunks, and memory
is read after each; what counts is the growth after the first tenth. *frame*: the peak while a query
runs over columns in memory, less the columns and less what a process holds that has loaded
everything and run over a small file. *parquet*: the same from a file, of which nothing is input held
in memory. Both hold the result, and whatever reading the columns left to the allocator.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from tempfile import TemporaryDirectory

from benchmarks.alone import alone
from benchmarks.measure import Row, Scale

TITLE = "Memory"
COLUMNS = ("case", "n", "events", "matches", "input_mb", "warm_mb", "after_tenth_mb", "end_mb",
           "growth_mb", "beyond_input_mb", "cpu_s", "events_per_s", "ratio_to_yardstick")  # fmt: skip

_MEASURE = """
import gc, json, sys, time
import polars as pl
from benchmarks.measure import Scale, Yardstick, forget_peak, peak_bytes, resident_bytes
from benchmarks.streams import chain, seed
from piestream.generators import booleans, booleans_chunks
MB = 1e6
case, n, events, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
small_path = path.replace("events", "few_events")
if case == "flat":
    session = chain(n).open()
    held, matches, cpu, yardstick = [], 0, 0.0, 0.0
    for chunk in booleans_chunks(n, events, seed, chunk=max(events // 100, 1)):
        stick = Yardstick(chunk)
        stick.pass_once()
        yardstick += stick.seconds
        before = time.process_time()
        matches += len(session.push(chunk))
        cpu += time.process_time() - before
        held.append(resident_bytes() / MB)
    tenth = held[len(held) // 10]
    row = {"after_tenth_mb": tenth, "end_mb": held[-1], "growth_mb": max(held[-10:]) - tenth,
           "highest_mb": max(held)}
elif case == "write":
    pl.concat(booleans_chunks(n, events, seed), rechunk=True).write_parquet(path)
    booleans(n, 2_000, seed).write_parquet(small_path)
    row, matches, cpu, yardstick = {}, 0, 1.0, 1.0
else:
    chain(n, source=f"'{small_path}'").run()  # the kernels are loaded
    gc.collect()
    warm = resident_bytes() / MB
    if case == "frame":
        frame = pl.read_parquet(path)
    input_mb = frame.estimated_size() / MB if case == "frame" else 0.0
    forget_peak()
    before = time.process_time()
    query = chain(n) if case == "frame" else chain(n, source=f"'{path}'")
    matches = len(query.run(frame) if case == "frame" else query.run())
    cpu = time.process_time() - before
    row = {"warm_mb": warm, "input_mb": input_mb, "beyond_input_mb": peak_bytes() / MB - warm - input_mb}
    stick = Yardstick(pl.read_parquet(path))
    stick.pass_once()
    yardstick = stick.seconds
print(json.dumps({"case": case, "n": n, "events": events, "matches": matches, **row, "cpu_s": cpu,
                  "events_per_s": events / cpu, "yardstick_s": yardstick,
                  "ratio_to_yardstick": cpu / yardstick}))
"""


def rows(scale: Scale) -> Iterator[Row]:
    """One row a case."""
    if not sys.platform.startswith("linux"):
        return
    stream = scale.of(20_000, 2_000_000, 100_000_000)
    frame = scale.of(10_000, 500_000, 10_000_000)
    with TemporaryDirectory() as folder:
        for case, n, events in (
            ("flat", 4, stream),
            ("write", 4, frame),
            ("frame", 4, frame),
            ("parquet", 4, frame),
            ("write", 24, frame),
            ("frame", 24, frame),
            ("parquet", 24, frame),
        ):
            row = alone(_MEASURE, case, str(n), str(events), f"{folder}/events.parquet")
            if case != "write":
                yield {**row, "load": os.getloadavg()[0]}
