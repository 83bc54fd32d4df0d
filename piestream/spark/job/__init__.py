"""The streaming job: command, connectors, checkpoint, progress."""

from __future__ import annotations

#: The name under which Spark knows the source and sink of `kafka`.
PYTHON_KAFKA = "piestream_kafka"
