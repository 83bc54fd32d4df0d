"""Kafka as a sink in Python, over confluent-kafka: at least once.

A micro-batch that fails and is repeated sends its messages again, for Kafka's transactions cannot
be tied to Spark's commits. Readers for whom that matters must drop the repeated messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

__all__ = ["KafkaStreamWriter", "KafkaWriter"]

_WAIT_SECONDS = 120.0


class KafkaWriter(DataSourceWriter):  # type: ignore[misc]
    """Writes the column ``value``, and ``key`` if there is one, as messages of a topic."""

    def __init__(self, topic: str, settings: Mapping[str, str], columns: tuple[str, ...]) -> None:
        if "value" not in columns or not {"key", "value"}.issuperset(columns):
            raise ValueError(
                "rows for Kafka have a column value and maybe a column key, both strings or binary; "
                f"not {', '.join(columns)}: write to_json(struct(*)) AS value"
            )
        self.topic = topic
        self.settings = dict(settings)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Send the rows of a task, and wait until Kafka has them all."""
        from confluent_kafka import Producer

        failures: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(str(error))

        producer = Producer({"enable.idempotence": True, **self.settings})
        for row in iterator:
            sent = row.asDict()
            while True:
                try:
                    producer.produce(
                        self.topic, sent["value"], key=sent.get("key"), on_delivery=delivered
                    )
                    break
                except BufferError:  # the queue is full
                    producer.poll(1.0)
            producer.poll(0)
        unsent = producer.flush(_WAIT_SECONDS)
        if unsent or failures:
            why = failures[0] if failures else f"no answer within {_WAIT_SECONDS:.0f} s"
            raise OSError(
                f"Kafka, topic {self.topic}: {unsent + len(failures)} messages were not taken: {why}"
            )
        return WriterCommitMessage()


class KafkaStreamWriter(KafkaWriter, DataSourceStreamWriter):  # type: ignore[misc]
    """The same for each micro-batch of a streaming query."""

    def commit(self, messages: Any, batchId: int = -1) -> None:  # noqa: N803
        """Kafka has all messages when a task ends."""

    def abort(self, messages: Any, batchId: int = -1) -> None:  # noqa: N803
        """Nothing can be taken back: Spark repeats the micro-batch."""
