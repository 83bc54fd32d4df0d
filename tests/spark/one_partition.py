"""What a Python worker holds of a partition: ``python -m tests.spark.one_partition ROWS``.

One partition of so many rows on one core, with a JVM that could not hold them as objects; prints
the matches and the peak of the worker's memory in MB (Linux).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.conftest import SETTINGS

QUERY = """
FROM rows PARTITION BY k ORDER BY ts
DEFINE a AS x % 10 < 4, b AS x % 7 < 3
PATTERN a overlaps; during; before b
WITHIN 60
RETURN a.ts, b.te, AVG(a.x) AS mean
"""


def peak_megabytes() -> float:
    """The largest peak among the workers that this process's JVM has started."""
    peaks = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            entries = dict(
                line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line
            )
        except OSError:  # it has ended
            continue
        if b"pyspark.daemon" in command and _is_ours(int(entries["PPid"])):
            peaks.append(int(entries["VmHWM"].split()[0]) / 1000)
    return max(peaks)


def _is_ours(process: int) -> bool:
    """Whether a process descends from this one."""
    import os

    while process > 1:
        if process == os.getpid():
            return True
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
    return False


def main(rows: int) -> None:
    """Run the query over one partition of so many rows."""
    from piestream.language import parse
    from piestream.spark import session

    settings = {**SETTINGS, "spark.driver.memory": "600m"}
    spark = session("local[1]", **{n.replace(".", "__"): v for n, v in settings.items()})
    frame = spark.range(rows).selectExpr("id AS ts", "1 AS k", "(id * 7919) % 1000 DIV 8 AS x")
    found = parse(QUERY).run(frame)
    matches = found.selectExpr("count(*)").first()[0]
    print(
        f"{rows:,} rows: {matches:,} matches, worker's peak {peak_megabytes():,.0f} MB", flush=True
    )
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
