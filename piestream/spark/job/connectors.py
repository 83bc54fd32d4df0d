"""What a streaming job reads from and writes to, as the command line names it: ``kind:place``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from piestream.spark.job import PYTHON_KAFKA

__all__ = [
    "KAFKA_HINT",
    "SINKS",
    "SOURCES",
    "Connector",
    "json_columns",
    "parse_connector",
]

_FILES = ("parquet", "json", "csv", "orc")
_KAFKA = ("kafka", "kafka-python")

_FORMS = (
    "parquet:DIR, json:DIR, csv:DIR, orc:DIR, table:NAME, kafka:TOPIC@HOST:PORT, "
    "kafka-python:TOPIC@HOST:PORT"
)
#: How sources and sinks are written.
SOURCES = f"{_FORMS} or rate:ROWS_PER_SECOND"
SINKS = f"{_FORMS} or console"

#: Spark's own connector for Kafka is a jar that pip does not install.
KAFKA_HINT = (
    "Spark's Kafka connector is a jar: start the job with spark-submit --packages "
    "org.apache.spark:spark-sql-kafka-0-10_2.13:<the version of Spark>, or use "
    "kafka-python:TOPIC@HOST:PORT, which needs confluent-kafka only"
)


@dataclass(frozen=True)
class Connector:
    """A source or a sink."""

    kind: str
    place: str
    options: Mapping[str, str] = field(default_factory=dict)

    def read_stream(self, spark: Any, schema: str | None) -> Any:
        """The streaming frame that a source gives."""
        reader = spark.readStream.options(**self.options)
        if self.kind in _FILES:
            return (
                reader.format(self.kind)
                .schema(schema or self._schema_of_files(spark))
                .load(self.place)
            )
        if self.kind == "table":
            return reader.table(self.place)
        if self.kind == "rate":
            return reader.format("rate").option("rowsPerSecond", self.place).load()
        topic, servers = self._topic()
        if self.kind == "kafka":
            reader = reader.format("kafka").option("subscribe", topic)
        else:
            self._register(spark)
            reader = reader.format(PYTHON_KAFKA).option("topic", topic)
        rows = reader.option("kafka.bootstrap.servers", servers).load()
        return rows if schema is None else json_columns(rows, schema)

    def _schema_of_files(self, spark: Any) -> Any:
        """The columns of the files that are there already."""
        return spark.read.format(self.kind).options(**self.options).load(self.place).schema

    def _topic(self) -> tuple[str, str]:
        topic, at, servers = self.place.partition("@")
        if not (topic and at and servers):
            raise ValueError(f"{self.kind}:{self.place}: write {self.kind}:TOPIC@HOST:PORT")
        return topic, servers

    def start(self, rows: Any, checkpoint: str, trigger: Mapping[str, Any]) -> Any:
        """Start to write a streaming frame to a sink."""
        self._register(rows.sparkSession)
        writer = self._writer(self._as_messages(rows).writeStream).outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
        return writer.toTable(self.place) if self.kind == "table" else writer.start()

    def append(self, rows: Any) -> None:
        """Add a bounded frame to a sink."""
        self._register(rows.sparkSession)
        rows = self._as_messages(rows)
        if self.kind == "console":
            rows.show(rows.count(), truncate=False)
        elif self.kind == "table":
            rows.write.mode("append").options(**self.options).saveAsTable(self.place)
        else:
            self._writer(rows.write).mode("append").save()

    def _writer(self, writer: Any) -> Any:
        writer = writer.options(**self.options)
        if self.kind == "table":
            return writer
        if self.kind == "console":
            return writer.format("console").option("truncate", "false")
        if self.kind in _KAFKA:
            topic, servers = self._topic()
            name = "kafka" if self.kind == "kafka" else PYTHON_KAFKA
            return (
                writer.format(name).option("topic", topic)
                .option("kafka.bootstrap.servers", servers)
            )  # fmt: skip
        return writer.format(self.kind).option("path", self.place)

    def _register(self, spark: Any) -> None:
        """Make the connector that is written in Python known to Spark."""
        if self.kind == "kafka-python":
            from piestream.spark.job.kafka import register

            register(spark)

    def _as_messages(self, rows: Any) -> Any:
        """The rows as Kafka takes them, each a value of JSON; for other sinks as they are."""
        if self.kind not in _KAFKA:
            return rows
        return rows.selectExpr("to_json(struct(*)) AS value")


def json_columns(rows: Any, schema: str) -> Any:
    """The columns of the JSON in messages, without a text that Spark would parse as SQL."""
    from piestream.spark.worker_plan import sql_functions

    functions = sql_functions(rows)
    value = functions.from_json(functions.col("value").cast("string"), schema)
    return rows.select(value.alias("value")).select("value.*")


def parse_connector(text: str, options: Mapping[str, str], *, is_source: bool) -> Connector:
    """The source or sink that a text names.

    >>> parse_connector("parquet:out/matches", {}, is_source=False)
    Connector(kind='parquet', place='out/matches', options={})
    """
    kind, _, place = text.partition(":")
    allowed = [*_FILES, "table", *_KAFKA, "rate" if is_source else "console"]
    what, forms = ("source", SOURCES) if is_source else ("sink", SINKS)
    if kind not in allowed:
        raise ValueError(f"{text}: a {what} is one of {forms}")
    if kind != "console" and not place:
        raise ValueError(f"{text}: {kind} needs a place: {forms}")
    if kind == "rate" and not (place.isdecimal() and int(place)):
        raise ValueError(f"{text}: the rate is a number of rows a second, such as rate:100")
    return Connector(kind, place, dict(options))
