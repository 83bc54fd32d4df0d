"""``python -m piestream.spark query.sql --source … --sink … --checkpoint …``, for spark-submit."""

from __future__ import annotations

import typer

from piestream.spark.job.command import stream

if __name__ == "__main__":
    typer.run(stream)
