"""What docs/spark.md shows runs. (Its blocks are ``py``, for the other pages need no Java.)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.docs.blocks import ROOT, blocks_of


def test_the_page_runs(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "spark.md"
    blocks = [block for block in blocks_of(page) if block.language == "py"]
    assert len(blocks) >= 3
    names: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks:
        text = block.text.replace('"reports"', f'"{tmp_path}/reports"')
        for name in ("fleet.parquet", "matches", "found", "checkpoint", "found-rest", "cars.json"):
            text = text.replace(f'"{name}"', f'"{tmp_path}/{name}"')
        exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), names)
    streamed = spark.read.parquet(f"{tmp_path}/found", f"{tmp_path}/found-rest").count()
    several = {"fleet": pl.read_parquet(tmp_path / "fleet.parquet"), "trips": names["trips"]}
    assert names["matches"].count() == len(names["braked"].run(several)) > 0
    assert streamed == spark.read.parquet(f"{tmp_path}/matches").count() > 0
