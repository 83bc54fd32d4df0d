"""Playing rows into Spark: a bounded frame, or files that are micro-batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

__all__ = ["InputsPlayer", "Player", "cut", "frame_of", "rows_of"]


def frame_of(spark: Any, frame: pl.DataFrame) -> Any:
    """A Polars frame as a bounded Spark frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def rows_of(frame: Any) -> pl.DataFrame:
    """The rows of a bounded Spark frame."""
    rows = pl.from_arrow(frame.toArrow())
    assert isinstance(rows, pl.DataFrame)
    return rows


class Source:
    """A folder of files as a streaming frame, one file a micro-batch."""

    def __init__(self, spark: Any, folder: Path, schema: pl.DataFrame) -> None:
        self.spark = spark
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.schema = frame_of(spark, schema.clear()).schema
        self.files = 0

    def frame(self) -> Any:
        """The streaming frame."""
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))

    def add(self, rows: pl.DataFrame) -> None:
        """One more file."""
        path = self.folder / f"{self.files:04}.parquet"
        rows.write_parquet(path)
        when = 1_700_000_000 + self.files
        os.utime(path, (when, when))
        self.files += 1


class InputsPlayer:
    """A streaming query over a folder of files for each input.

    It can be stopped and started again; `rows` gives what has come in order.
    """

    def __init__(
        self, spark: Any, query: Any, schemas: Mapping[str, pl.DataFrame], folder: Path,
        **options: Any,
    ) -> None:  # fmt: skip
        self.query = query
        self.options = options
        self.sources = {
            key: Source(spark, folder / f"source {number}", schema)
            for number, (key, schema) in enumerate(schemas.items())
        }
        self.checkpoint = str(folder / "checkpoint")
        self.batches: dict[int, pl.DataFrame] = {}
        self.progress: list[Any] = []

    def frames(self) -> Any:
        """The streaming frames, by the names of the inputs."""
        return {key: source.frame() for key, source in self.sources.items()}

    def add(self, part: Mapping[str, pl.DataFrame]) -> None:
        """One more file for each input: a micro-batch."""
        for key, rows in part.items():
            self.sources[key].add(rows)

    def play(self, *parts: Any) -> None:
        """Run a query over what is there, these files included, and stop it."""
        for part in parts:
            self.add(part)
        found = self.query.run(self.frames(), **self.options)
        self.result_schema = found.schema
        writer = found.writeStream.foreachBatch(self._keep)
        writer = writer.option("checkpointLocation", self.checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        assert running.exception() is None
        self.progress += running.recentProgress

    def _keep(self, batch: Any, number: int) -> None:
        self.batches[number] = rows_of(batch)

    def flushed(self) -> pl.DataFrame:
        """What the end of the stream makes known."""
        from piestream.spark import flush

        return rows_of(flush(self.query, self.frames(), self.checkpoint))

    def rows(self) -> pl.DataFrame:
        """All the rows so far."""
        return pl.concat([self.batches[number] for number in sorted(self.batches)])

    def counted(self, name: str) -> int:
        """The sum of a metric over all micro-batches."""
        batches = [p.observedMetrics.get("piestream") for p in self.progress]
        return sum(metrics[name] for metrics in batches if metrics is not None)

    def dropped(self) -> int:
        """The late rows that Spark did not even deliver."""
        return sum(o.numRowsDroppedByWatermark for p in self.progress for o in p.stateOperators)


class Player(InputsPlayer):
    """A streaming query over a folder of files of one stream."""

    def __init__(self, spark: Any, query: Any, schema: pl.DataFrame, folder: Path, **options: Any):
        super().__init__(spark, query, {"": schema}, folder, **options)
        self.source = self.sources[""]
        self.watermark: tuple[str, str] | None = None

    def frames(self) -> Any:
        """The streaming frame."""
        frame = self.source.frame()
        return frame.withWatermark(*self.watermark) if self.watermark is not None else frame

    def frame(self) -> Any:
        """The streaming frame."""
        return self.frames()

    def add(self, part: Any) -> None:
        """One more file."""
        self.source.add(part)


def cut(rows: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """The rows in parts of these sizes."""
    parts, at = [], 0
    for size in sizes:
        parts.append(list(rows[at : at + size]))
        at += size
    return parts
