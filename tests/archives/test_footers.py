"""Footers are parsed once, and of files that are what they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, footers, pages, plain, store
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


def test_what_files_say_of_their_pages_is_parsed_once_however_often_they_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(footers, "_LONGEST_STEP", -1)  # as if the files were old
    ps.archive(tmp_path / "own", time="ts", page_rows=10).append(_rows(7.0))
    (tmp_path / "plain").mkdir()
    _overwrite(tmp_path / "plain" / "rows.parquet", _rows(7.0))
    parsed: list[Path] = []
    row_groups, read_statistics = plain._row_groups, store._read_statistics

    def counted(number: int, path: Path, schema: pl.Schema) -> Iterator[dict[str, Any]]:
        parsed.append(path)
        return row_groups(number, path, schema)

    def also_counted(path: Path, *given: Any) -> pl.DataFrame:
        parsed.append(path)
        return read_statistics(path, *given)

    monkeypatch.setattr(plain, "_row_groups", counted)
    monkeypatch.setattr(store, "_read_statistics", also_counted)
    for _ in range(3):
        assert len(_QUERY.run(ps.archive(tmp_path / "own"))) == 1
        assert len(_QUERY.run(ps.archive(tmp_path / "plain"))) == 1
    assert [path.name for path in parsed] == ["0000000000.arrow", "rows.parquet"]
    _overwrite(tmp_path / "plain" / "rows.parquet", _rows(1.0))
    assert len(_QUERY.run(ps.archive(tmp_path / "plain"))) == 0
    assert len(parsed) == 3


def test_a_file_that_is_written_twice_in_one_step_of_the_clock_is_looked_at_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    _rows(7.0).write_parquet(path)
    known = footers.identity_of(path)
    monkeypatch.setattr(plain, "identity_of", lambda _: known)
    assert plain.plain_pages(tmp_path, [path]) is not plain.plain_pages(tmp_path, [path])
    monkeypatch.setattr(footers, "_LONGEST_STEP", -1)
    assert plain.plain_pages(tmp_path, [path]) is plain.plain_pages(tmp_path, [path])


def test_the_footer_of_a_file_that_has_just_been_written_counts_for_its_reader_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept, reader = tmp_path / "rows.parquet", Footers(), object()
    _rows(7.0).write_parquet(path, row_group_size=50)
    known = footers.identity_of(path)
    monkeypatch.setattr(footers, "identity_of", lambda _: known)  # all in one step of the clock
    first = kept.scan(path, {}, 4, reader)
    assert first.select(pl.col("x").max()).collect().item() == 7.0
    assert kept.scan(path, {}, 4, reader) is first
    _rows(1.0).write_parquet(path, row_group_size=10)
    again = kept.scan(path, {}, 4, object())
    assert again.select(pl.col("x").max()).collect().item() == 1.0
    assert len(kept) == 1


def test_an_archive_looks_again_at_a_file_that_had_just_been_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    path = tmp_path / "rows.parquet"
    _rows(7.0).write_parquet(path, row_group_size=10)
    known = footers.identity_of(path)
    for module in (footers, plain):  # all in one step of the clock
        monkeypatch.setattr(module, "identity_of", lambda _: known)
    lake = ps.archive(tmp_path)
    assert len(_QUERY.run(lake)) == 1
    _rows(1.0).write_parquet(path, row_group_size=10)
    assert len(_QUERY.run(lake)) == 0
    monkeypatch.setattr(footers, "_LONGEST_STEP", -1)  # some seconds later
    assert lake.pages is lake.pages


def test_a_file_in_place_of_another_is_noticed_though_its_time_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"old")
    before = path.stat()
    known = footers.identity_of(path)
    sleep(0.02)  # a step of the clock
    path.write_bytes(b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert footers.identity_of(path) != known


def test_the_footers_that_were_used_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "_LONGEST_STEP", -1)  # as if the files were old
    paths = [tmp_path / f"{n}.parquet" for n in range(4)]
    for n, path in enumerate(paths):
        pl.DataFrame({"x": [n]}).write_parquet(path)
    kept = Footers(most=30)
    first = kept.scan(paths[0], {}, 10, object())
    for path in paths[:3]:
        kept.scan(path, {}, 10, object())
    assert kept.scan(paths[0], {}, 10, object()) is first
    kept.scan(paths[3], {}, 20, object())
    assert len(kept) == 2
    assert kept.scan(paths[0], {}, 10, object()) is first
    assert kept.scan(paths[1], {}, 99, object()).collect().item() == 1
    assert len(kept) == 1
    kept.clear()
    assert len(kept) == 0
