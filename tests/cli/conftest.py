"""A fleet in every format, and the command line called from within."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from piestream.cli.app import app
from piestream.demo.fleet import fleet

#: Fast drivers who brake: many short intervals, and matches in every car.
QUERY = """\
FROM fleet PARTITION BY car_id ORDER BY ts
DEFINE f AS speed > 60 AT LEAST 3 s, b AS accel < -0.4
PATTERN f contains; overlaps; meets b
WITHIN 2 min
RETURN f.ts, b.te, MIN(b.speed) AS slowest, RELATION(f, b) AS how
"""


@pytest.fixture(scope="session")
def events() -> pl.DataFrame:
    return fleet(cars=25, seconds=600, seed=5)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, events: pl.DataFrame) -> Path:
    """query.sql and the events as Parquet, CSV and NDJSON."""
    made = tmp_path_factory.mktemp("fleet")
    (made / "query.sql").write_text(QUERY)
    events.write_parquet(made / "events.parquet", row_group_size=1000)
    events.write_csv(made / "events.csv")
    events.write_ndjson(made / "events.ndjson")
    return made


@pytest.fixture
def piestream() -> Callable[..., Any]:
    """Call the command line; ``.exit_code``, ``.stdout`` and ``.stderr`` of the result tell."""

    def call(*arguments: object, stdin: bytes | str | None = None) -> Any:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call
