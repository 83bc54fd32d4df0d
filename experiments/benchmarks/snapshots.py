"""Size of a session's state, and the time to write it down and to take it up again."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Row, Scale, Yardstick, compared, timed
from benchmarks.streams import chain, in_partitions

TITLE = "Snapshot and restore"
COLUMNS = ("partitions", "within", "live_intervals", "state_bytes", "snapshot_bytes",
           "bytes_per_interval", "snapshot_s", "restore_s", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a number of partitions and a window; the yardstick is a pass over the rows pushed."""
    cases = (
        (1, 1_000), (1, 10_000), (1, 100_000), (1_000, 1_000), (10_000, 1_000), (100_000, 1_000),
    )  # fmt: skip
    events = scale.of(20_000, 500_000, 2_000_000)
    for partitions, within in scale.of(cases[:1], cases[:4], cases):
        query = chain(4, within, partition_by="key")
        frame = in_partitions(4, events, partitions)
        session = query.open()
        session.push(frame)
        row = compared(lambda session=session: len(session.snapshot()), scale, len(frame),
                       Yardstick(frame), partitions=partitions, within=within)  # fmt: skip
        state = session.snapshot()
        restoring, again = timed(lambda q=query, state=state: q.open(state=state), scale)
        if again.snapshot() != state:
            raise AssertionError("a restored session has another state")
        live = session.statistics.live_intervals
        del row["matches"], row["events_per_s"]
        yield {
            **row,
            "live_intervals": live,
            "state_bytes": session.statistics.state_bytes,
            "snapshot_bytes": len(state),
            "bytes_per_interval": len(state) / max(live, 1),
            "snapshot_s": row["cpu_s"],
            "restore_s": restoring.row()["cpu_s"],
        }
