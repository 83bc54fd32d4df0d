"""A query goes on from a checkpoint that an older version of the state has written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.spark.old_checkpoint import FILES, HERE, OPTIONS, QUERY
from tests.spark.streams import Player

_KEPT = sorted(HERE.glob("v*.zip"))


@pytest.mark.parametrize("archive", _KEPT, ids=lambda path: path.stem)
def test_a_query_goes_on_from_an_old_checkpoint(spark: Any, tmp_path: Path, archive: Path) -> None:
    kept = tmp_path / "kept"
    shutil.unpack_archive(archive, kept)
    rows = pl.read_parquet(kept / "cars.parquet")
    parts = list(rows.iter_slices(len(rows) // FILES + 1))
    player = Player(spark, QUERY, rows, tmp_path / "run", **OPTIONS)
    shutil.copytree(kept / "checkpoint", player.checkpoint)
    player.source.files = FILES // 2  # later than the files that are done
    player.play(*parts[FILES // 2 :])
    first = pl.read_parquet(kept / "first.parquet")
    found = pl.concat([first, player.rows(), player.flushed()])
    expected = QUERY.run(rows)
    assert len(expected) > len(first) > 0
    order = expected.columns
    assert found.cast(expected.schema).sort(order).equals(expected.sort(order))


def test_a_checkpoint_is_kept() -> None:
    assert _KEPT
