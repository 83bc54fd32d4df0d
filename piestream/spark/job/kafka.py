"""Kafka as a source and a sink in Python, over confluent-kafka: no jar needed.

Registered as ``piestream_kafka``. Offsets are kept in Spark's checkpoint, so that a stopped query
goes on with the next message; nothing is committed to Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2 a micro-batch takes all that there is
    ReadAllAvailable = ReadLimit = ReadMaxRows = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A source that knows where to stop."""


from piestream.spark.job import PYTHON_KAFKA
from piestream.spark.job.kafka_writer import KafkaStreamWriter, KafkaWriter

__all__ = ["NAME", "KafkaSource", "register"]

NAME = PYTHON_KAFKA

_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
)
_ARROW = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
    ]
)
_WAIT_SECONDS = 10.0
#: A partition that gives nothing for so long, though it should have more, is an error.
_READ_TIMEOUT_SECONDS = 60.0
_MESSAGES = 50_000


def register(spark: Any) -> None:
    """Register the format ``piestream_kafka`` of readers and writers with a Spark session."""
    spark.dataSource.register(KafkaSource)


class KafkaSource(DataSource):  # type: ignore[misc]
    """Messages of one topic.

    Options: ``topic``; ``kafka.bootstrap.servers`` and any other setting of librdkafka with
    ``kafka.`` before it; ``startingOffsets``, ``earliest`` (default) or ``latest``;
    ``maxOffsetsPerTrigger``, the most messages of a micro-batch (from Spark 4.2 on).
    """

    @classmethod
    def name(cls) -> str:
        """The source's name in Spark."""
        return NAME

    def schema(self) -> str:
        """The columns, as those of Spark's own connector."""
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """The reader of a streaming query."""
        return KafkaReader(dict(self.options))

    def writer(self, schema: Any, overwrite: bool) -> KafkaWriter:
        """The writer of a bounded frame."""
        return KafkaWriter(*_topic_and_settings(self.options), tuple(schema.names))

    def streamWriter(self, schema: Any, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
        """The writer of a streaming query."""
        return KafkaStreamWriter(*_topic_and_settings(self.options), tuple(schema.names))


def _topic_and_settings(options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The topic, and the settings of librdkafka. Spark's options have no case."""
    given = {name.lower(): value for name, value in options.items()}
    if "topic" not in given or "kafka.bootstrap.servers" not in given:
        raise ValueError(f"{NAME} needs the options topic and kafka.bootstrap.servers")
    return given["topic"], {
        name.removeprefix("kafka."): value
        for name, value in given.items()
        if name.startswith("kafka.")
    }


@dataclass
class Span(InputPartition):  # type: ignore[misc]
    """Messages ``[first, end)`` of a partition."""

    partition: int
    first: int
    end: int


class KafkaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads by offsets that Spark keeps: a dict from partition to the next offset."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self.topic, self.settings = _topic_and_settings(options)
        self.from_start = given.get("startingoffsets", "earliest") == "earliest"
        most = given.get("maxoffsetspertrigger")
        self.most = None if most is None else int(most)
        if self.most is not None and ReadMaxRows is None:
            raise ValueError("maxOffsetsPerTrigger needs Spark 4.2 or newer; leave it out")
        self.target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a new query begins."""
        return self._offsets(lowest=self.from_start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a micro-batch takes."""
        return ReadAllAvailable() if self.most is None else ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run: later messages are for the next one."""
        self.target = self._offsets(lowest=False)

    def latestOffset(  # noqa: N802
        self, start: dict[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """Where the next micro-batch ends."""
        ends = self.target or self._offsets(lowest=False)
        if start is None:
            return ends
        if ReadMaxRows is not None and isinstance(limit, ReadMaxRows):
            return _share(start, ends, limit.max_rows)
        return {partition: max(end, start.get(partition, 0)) for partition, end in ends.items()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """A task for each partition that has messages."""
        spans = [Span(int(p), start.get(p, 0), last) for p, last in end.items()]
        return [span for span in spans if span.first < span.end]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a task."""
        from confluent_kafka import Consumer, TopicPartition

        assert isinstance(partition, Span)
        consumer = Consumer(self._consumer_settings())
        try:
            consumer.assign([TopicPartition(self.topic, partition.partition, partition.first)])
            at, waited = partition.first, 0.0
            while at < partition.end:
                messages = consumer.consume(min(_MESSAGES, partition.end - at), 1.0)
                waited = 0.0 if messages else waited + 1.0
                if waited >= _READ_TIMEOUT_SECONDS:
                    raise TimeoutError(
                        f"partition {partition.partition} of {self.topic} gave no message for "
                        f"{_READ_TIMEOUT_SECONDS:.0f} s though offsets {at} to {partition.end} were "
                        "announced: were they deleted by retention?"
                    )
                for message in messages:
                    if message.error() is not None:
                        raise OSError(f"Kafka, topic {self.topic}: {message.error()}")
                kept = [m for m in messages if int(m.offset() or 0) < partition.end]
                if messages:
                    at = int(messages[-1].offset() or 0) + 1
                if kept:
                    yield _batch(kept)
        finally:
            consumer.close()

    def commit(self, end: dict[str, int]) -> None:
        """Offsets are in the checkpoint; nothing is committed to Kafka."""

    def _consumer_settings(self) -> dict[str, Any]:
        return {
            **self.settings,
            "group.id": self.settings.get("group.id", "piestream"),
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }

    def _offsets(self, *, lowest: bool) -> dict[str, int]:
        """The first or the next offset of each partition."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(self._consumer_settings())
        try:
            known = consumer.list_topics(self.topic, timeout=_WAIT_SECONDS).topics[self.topic]
            if known.error is not None or not known.partitions:
                raise OSError(f"Kafka has no topic {self.topic}: {known.error}")
            offsets = {}
            for number in sorted(known.partitions):
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(self.topic, number), timeout=_WAIT_SECONDS
                )
                offsets[str(number)] = low if lowest else high
            return offsets
        finally:
            consumer.close()


def _share(start: Mapping[str, int], ends: Mapping[str, int], most: int) -> dict[str, int]:
    """At most so many messages, from each partition as much as its part of what waits."""
    waiting = {p: max(end - start.get(p, 0), 0) for p, end in ends.items()}
    total = sum(waiting.values())
    if total <= most:
        return {p: start.get(p, 0) + count for p, count in waiting.items()}
    taken = {p: count * most // total for p, count in waiting.items()}
    if not any(taken.values()):
        fullest = max(waiting, key=lambda p: waiting[p])
        taken[fullest] = min(most, waiting[fullest])
    return {p: start.get(p, 0) + count for p, count in taken.items()}


def _batch(messages: list[Any]) -> pa.RecordBatch:
    columns = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] * 1000 for message in messages],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
