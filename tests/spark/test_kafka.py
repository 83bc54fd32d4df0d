"""The Kafka source in Python, against the mock broker that librdkafka has built in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from piestream.language import parse
from piestream.language.options import SparkStreamOptions
from tests.spark.streams import rows_of

confluent_kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is missing: pip install 'piestream[kafka]'"
)

QUERY = parse(
    """FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 2 PATTERN a WITHIN 60 s
EMIT ON COMPLETION RETURN a.ts, a.te, SUM(a.x) AS total"""
)
_START = datetime(2024, 1, 1)


@pytest.fixture(scope="module")
def producer() -> Iterator[Any]:
    """A producer whose process holds the brokers."""
    made = confluent_kafka.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "unused"})
    yield made
    made.flush(5)


def _servers(producer: Any) -> str:
    brokers = producer.list_topics(timeout=10).brokers.values()
    return ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def _rows(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "k": [n % 5 for n in range(first, first + count)],
            "t": [_START + timedelta(seconds=n // 5) for n in range(first, first + count)],
            "x": [n // 5 * (n % 5 + 2) % 7 for n in range(first, first + count)],
        }
    )


def _send(producer: Any, topic: str, rows: pl.DataFrame) -> None:
    for row in rows.iter_rows(named=True):
        value = json.dumps({**row, "t": row["t"].isoformat()}).encode()
        producer.produce(topic, value, key=str(row["k"]).encode())
    producer.flush(10)


def test_messages_become_matches_and_a_restart_goes_on(
    spark: Any, producer: Any, tmp_path: Path
) -> None:
    from piestream.spark import flush
    from piestream.spark.job.connectors import parse_connector
    from piestream.spark.job.job import Job, run_job
    from piestream.spark.job.sources import Source

    topic = "events"
    _send(producer, topic, _rows(0, 400))
    # Before Spark 4.2 a source in Python cannot say how much a micro-batch takes.
    limits = tuple(map(int, spark.version.split(".")[:2])) >= (4, 2)
    limit = {"maxOffsetsPerTrigger": "150"} if limits else {}
    schema = "k bigint, t timestamp_ntz, x bigint"
    source = parse_connector(f"kafka-python:{topic}@{_servers(producer)}", limit, is_source=True)
    job = Job(
        query=QUERY,
        sources={"s": Source(source, schema)},
        sink=parse_connector(f"parquet:{tmp_path / 'sink'}", {}, is_source=False),
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        options=SparkStreamOptions(lateness="90 s", buckets=2),
    )
    lines: list[str] = []
    run_job(spark, job, lines.append)
    assert len(lines) > 2 or not limits
    assert sum(int(line.split(" | ")[1].split()[0]) for line in lines) == 400
    _send(producer, topic, _rows(400, 100))
    again: list[str] = []
    run_job(spark, job, again.append)
    assert sum(int(line.split(" | ")[1].split()[0]) for line in again) == 100

    expected = QUERY.run(_rows(0, 500))
    frame = source.read_stream(spark, schema)
    found = pl.concat(
        [
            rows_of(spark.read.parquet(str(tmp_path / "sink"))),
            rows_of(flush(QUERY, frame, job.checkpoint)),
        ]
    )
    order = ["k", "completed_at"]
    assert len(expected) > 50
    assert found.sort(order).equals(expected.sort(order))


def test_matches_are_written_as_messages(spark: Any, producer: Any, tmp_path: Path) -> None:
    from piestream.spark.job.connectors import parse_connector
    from piestream.spark.job.job import Job, run_job
    from piestream.spark.job.sources import Source

    rows = _rows(0, 300)
    (tmp_path / "source").mkdir()
    rows.write_parquet(tmp_path / "source" / "rows.parquet")
    sink = parse_connector(f"kafka-python:found@{_servers(producer)}", {}, is_source=False)
    job = Job(
        query=QUERY,
        sources={
            "s": Source(parse_connector(f"parquet:{tmp_path / 'source'}", {}, is_source=True))
        },
        sink=sink,
        rest=sink,
        checkpoint=str(tmp_path / "checkpoint"),
        available_now=True,
        options=SparkStreamOptions(lateness="5 s", buckets=2),
    )
    run_job(spark, job, lambda line: None)
    expected = QUERY.run(rows)
    assert len(expected) > 30
    written = [json.loads(text) for text in _values(producer, "found", len(expected))]
    instants = ("completed_at", "a_ts", "a_te")
    found = pl.DataFrame(written).with_columns(
        pl.col(instants).str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us")
    )
    order = ["k", "completed_at"]
    assert found.sort(order).equals(expected.sort(order))


def _values(producer: Any, topic: str, count: int) -> list[bytes]:
    """All messages of a topic, which are so many."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": _servers(producer),
            "group.id": "test",
            "auto.offset.reset": "earliest",
        }
    )
    places = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, place, 0) for place in places])
    values: list[bytes] = []
    while len(values) < count and (messages := consumer.consume(count + 1, 5.0)):
        values += [message.value() for message in messages]
    values += [message.value() for message in consumer.consume(1, 0.5)]
    consumer.close()
    return values


def test_what_kafka_does_not_take_is_an_error() -> None:
    from piestream.spark.job.kafka_writer import KafkaWriter

    with pytest.raises(ValueError, match=r"a column value and maybe a column key.*not car_id, ts"):
        KafkaWriter("x", {}, ("car_id", "ts"))
    nobody = {"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": "200"}
    row = SimpleNamespace(asDict=lambda: {"value": "{}"})
    with pytest.raises(OSError, match="topic x: 1 messages were not taken"):
        KafkaWriter("x", nobody, ("value",)).write(iter([row]))


def test_batches_are_shared_out_among_partitions() -> None:
    from piestream.spark.job.kafka import _share

    ends = {"0": 100, "1": 50, "2": 5}
    assert _share({"0": 0, "1": 0, "2": 5}, ends, 60) == {"0": 40, "1": 20, "2": 5}
    assert _share({"0": 99, "1": 50, "2": 5}, ends, 60) == ends
    assert _share({}, {"0": 3, "1": 1000}, 1) == {"0": 0, "1": 1}


def test_a_missing_topic_is_named(spark: Any) -> None:
    from piestream.spark.job.kafka import KafkaReader

    with pytest.raises(ValueError, match="needs the options topic"):
        KafkaReader({"topic": "x"})
