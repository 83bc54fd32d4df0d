"""Aggressive drivers in a generated fleet: ``python -m piestream.demo.command``.

The query of the papers over cars that report once a second. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl

from piestream.adapters.named_files import NamedFile, write_faults
from piestream.demo.fleet import fleet, fleet_chunks
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.language import parse

__all__ = ["QUERY", "find", "in_order", "main", "show_demo", "write_matches"]

#: The aggressive driver (Körber et al.), over the columns of `piestream.demo.fleet`.
QUERY = """\
FROM fleet PARTITION BY car_id ORDER BY ts MAX GAP 30 s
DEFINE a AS accel > 8 AT LEAST 5 s,
       s AS speed > 70 BETWEEN 4 s AND 30 s,
       c AS lateral > 0.5 OR lateral < -0.5,
       d AS accel < -9
PATTERN a meets; overlaps; starts; during s
    AND s contains; overlaps; finished_by c
    AND c overlaps; meets; before d
    AND a before d
WITHIN 5 minutes
RETURN AVG(s.speed) AS avg_speed, s.ts, s.te, RELATION(a, s) AS how
"""

#: Seconds of the fleet made at a time.
_CHUNK_SECONDS = 120


def find(cars: int, seconds: int) -> tuple[pl.DataFrame, Statistics, float]:
    """The matches in a fleet in order of time, what the stream counted, and the seconds of matching.

    >>> matches, seen, _ = find(cars=50, seconds=60)
    >>> matches.columns
    ['car_id', 'detected_at', 'avg_speed', 's_ts', 's_te', 'how']
    """
    from piestream.adapters.binding import bound

    binding = bound(parse(QUERY), fleet(cars, 0).schema)
    # The first use on a machine compiles the loops; that is not the speed of the engine.
    Stream(binding, lateness=None).process(fleet(1, 10))
    stream = Stream(binding, lateness=None)
    found = []
    worked = 0.0
    for frame in fleet_chunks(cars, seconds, chunk=_CHUNK_SECONDS):
        started = time.perf_counter()
        found.append(stream.process(frame))
        worked += time.perf_counter() - started
    found.append(stream.finish())
    return in_order(pl.concat(found)), stream.statistics, worked


def in_order(matches: pl.DataFrame) -> pl.DataFrame:
    """Matches in order of detection; those of one instant in order of all their columns."""
    first = ["detected_at", "car_id", "s_ts"]
    return matches.sort([*first, *(name for name in matches.columns if name not in first)])


def show_demo(cars: int, seconds: int) -> pl.DataFrame:
    """Print the query and what it finds; gives the matches."""
    from piestream.show.table import table_text

    print(QUERY)
    matches, seen, worked = find(cars, seconds)
    print(f"{cars:,} cars for {seconds:,} s; the first of {len(matches):,} matches:\n")
    print(table_text(matches.head(10)))
    rate = round(seen.events / worked) if worked else 0
    print(f"{seen.events:,} events in {worked:.2f} s: {rate:,} events/s")
    return matches


def write_matches(matches: pl.DataFrame, out: Path) -> None:
    """Write matches as Parquet and CSV: both files, or none where that fails."""
    out.mkdir(parents=True, exist_ok=True)
    parquet, csv = out / "matches.parquet", out / "matches.csv"
    with _all_or_none(parquet, csv) as files:
        matches.write_parquet(files[0])
        matches.write_csv(files[1])
    print(f"matches written to {parquet} and {csv}")


@contextmanager
def _all_or_none(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Files to write, which take their names together in the end."""
    targets: list[NamedFile] = []
    try:
        for path in paths:
            targets.append(NamedFile(path))
        with write_faults(", ".join(map(str, paths))):
            yield [target.file for target in targets]
            for target in targets:
                target.file.flush()
        for target in targets:
            target.done()
    except BaseException:
        for target in targets:
            target.undone()
        raise


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run the demo."""
    parser = argparse.ArgumentParser(
        prog="python -m piestream.demo.command",
        description="Find aggressive drivers in a generated fleet.",
    )
    parser.add_argument("--cars", type=_positive, default=1000, help="cars in the fleet (1000)")
    parser.add_argument(
        "--seconds", type=_positive, default=1800, help="how long they drive (1800)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("piestream-demo"), help="directory to write to"
    )
    options = parser.parse_args(arguments)
    write_matches(show_demo(options.cars, options.seconds), options.out)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


if __name__ == "__main__":
    main()
