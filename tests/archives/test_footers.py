"""Footers are parsed once, and of files that are what they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, pages
from piestream.archives.footers import Footers, OverwrittenError

_QUERY = ps.query("FROM s ORDER BY ts DEFINE a AS x > 6 PATTERN a WITHIN 9")


def _rows(value: float) -> pl.DataFrame:
    return pl.DataFrame({"ts": range(100), "x": [value if ts == 50 else 0.0 for ts in range(100)]})


def _overwrite(path: Path, rows: pl.DataFrame) -> None:
    rows.write_parquet(path, row_group_size=10)
    found = os.stat(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))  # clocks may be coarse


@pytest.mark.parametrize("is_selecting", [True, False])
def test_a_file_that_is_overwritten_in_its_place_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_selecting: bool
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0 if is_selecting else 1 << 40)
    path = tmp_path / "rows.parquet"
    _overwrite(path, _rows(7.0))
    lake = ps.archive(tmp_path)
    assert len(_QUERY.run(lake)) == 1
    _overwrite(path, _rows(1.0))
    assert len(_QUERY.run(lake)) == 0
    _overwrite(path, pl.concat([_rows(7.0), _rows(8.0).with_columns(pl.col("ts") + 100)]))
    assert len(_QUERY.run(lake)) == 2


def test_pages_of_a_file_that_is_overwritten_are_no_longer_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    _overwrite(path, _rows(7.0))
    known = ps.archive(tmp_path).pages
    _overwrite(path, _rows(1.0))
    with pytest.raises(OverwrittenError, match="has been overwritten"):
        known.read(known.files, ["x"])


def test_a_file_that_is_overwritten_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    path = tmp_path / "rows.parquet"
    _overwrite(path, _rows(7.0))
    lake = ps.archive(tmp_path)
    assert len(_QUERY.run(lake)) == 1
    collected, others = pages._collected, [_rows(1.0)[:60]]

    def late(scans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        if others:
            _overwrite(path, others.pop())
        return collected(scans)

    monkeypatch.setattr(pages, "_collected", late)
    assert len(_QUERY.run(lake)) == 0
    assert not others


def test_an_archive_that_is_created_anew_has_files_of_its_own(tmp_path: Path) -> None:
    for value, count in ((7.0, 1), (1.0, 0)):
        lake = ps.archive(tmp_path / "lake", time="ts", page_rows=10)
        lake.append(_rows(value))
        assert [path.name for path in lake.files] == ["0000000000.parquet"]
        assert len(_QUERY.run(lake)) == count
        shutil.rmtree(tmp_path / "lake")


def test_the_footers_that_were_used_last_are_kept(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.parquet" for n in range(4)]
    for n, path in enumerate(paths):
        pl.DataFrame({"x": [n]}).write_parquet(path)
    kept = Footers(most=30)
    first = kept.scan(paths[0], {}, 10)
    for path in paths[:3]:
        kept.scan(path, {}, 10)
    assert kept.scan(paths[0], {}, 10) is first
    kept.scan(paths[3], {}, 20)
    assert len(kept) == 2
    assert kept.scan(paths[0], {}, 10) is first
    assert kept.scan(paths[1], {}, 99).collect().item() == 1
    assert len(kept) == 1
    kept.clear()
    assert len(kept) == 0
