"""Archives that somebody, or something, has changed behind their back: refused, with what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, durable, lock

_QUERY = ps.query("FROM s PARTITION BY car ORDER BY ts DEFINE a AS x > 3 PATTERN a WITHIN 5")
_ROWS = pl.DataFrame(
    {"ts": range(200), "car": [n % 2 for n in range(200)], "x": [n % 7 for n in range(200)]}
)


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select pages of archives as small as these."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "MOST_COST", 1e9)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = ps.archive(tmp_path / "lake", time="ts", key="car", page_rows=10, file_rows=50)
    lake.append(_ROWS)
    return lake.path


def _first_file(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda found: found["files"][0].update(values)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda found: found.update(time=5), "time is 5"),
        (lambda found: found.update(time="nope"), "there is no column nope"),
        (lambda found: found.update(key=["nope"]), "there is no column nope"),
        (lambda found: found.update(key=[1]), "the key is of names"),
        (lambda found: found.update(page_rows=0), "has a row at least"),
        (lambda found: found.update(page_rows=True), "page_rows is True"),
        (lambda found: found.update(schema="AAAA"), "schema describes no columns"),
        (lambda found: found.update(schema="é"), "schema describes no columns"),
        (lambda found: found.update(schema=None), "there are files, but no columns"),
        (lambda found: found.update(next_number=0), "has a number that is to be given yet"),
        (lambda found: found["files"].append(found["files"][0]), "is named twice"),
        (_first_file(name="../../manifest.json"), "is no name of a file of rows"),
        (_first_file(name="/etc/passwd"), "is no name of a file of rows"),
        (_first_file(rows="x"), "rows is 'x'"),
        (_first_file(number=None), "number is None"),
    ],
)
def test_a_manifest_that_no_archive_has_written_is_refused(
    place: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    path = place / "manifest.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(ps.ArchiveError, match=f"{why}.*If it is damaged, put back a copy"):
        ps.archive(place)


def test_a_manifest_that_is_no_text_of_one_is_refused(place: Path) -> None:
    for text in ("", "[]", "[" * 100_000, "\0"):
        (place / "manifest.json").write_text(text)
        with pytest.raises(ps.ArchiveError, match="put back a copy"):
            ps.archive(place)


def test_an_archive_without_its_manifest_is_not_taken_for_files_of_others(place: Path) -> None:
    (place / "manifest.json").unlink()
    with pytest.raises(ps.ArchiveError, match=r"whose manifest\.json is missing"):
        ps.archive(place)
    assert len(ps.archive(place / "rows").scan().collect()) == 200


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _with_column(path: Path) -> None:
    pl.read_parquet(path).with_columns(more=1).write_parquet(path)


def _overwritten_inside(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(300) + data[320:])


@pytest.mark.parametrize("change", [_cut, _with_column, _overwritten_inside])
def test_a_file_of_rows_that_was_changed_is_refused_where_it_is_read(
    place: Path, change: Callable[[Path], object]
) -> None:
    lake = ps.archive(place)
    change(lake.files[0])
    for opened in (lake, ps.archive(place)):
        with pytest.raises(ps.ArchiveError, match=r"[pP]ut back (a copy|copies)"):
            _QUERY.run(opened)
        with pytest.raises(ps.ArchiveError, match=r"[pP]ut back (a copy|copies)"):
            opened.aggregate("SUM(x)", between=(3, 77))
    lake.append(_ROWS[:5])  # late, so that the file is to be written anew
    with pytest.raises(ps.ArchiveError, match=r"[pP]ut back (a copy|copies)"):
        lake.compact()
    assert len(lake.verify()) == 1


def test_statistics_of_other_rows_leave_out_no_pages(place: Path) -> None:
    statistics = sorted((place / "statistics").iterdir())
    shutil.copy(statistics[1], statistics[0])
    lake = ps.archive(place)
    for ask in (lambda: _QUERY.run(lake), lambda: lake.aggregate("COUNT(*)")):
        with pytest.raises(ps.ArchiveError, match=r"0000000000\.arrow is damaged.*Put back a copy"):
            ask()
    assert len(lake.verify()) == 1


def test_a_damaged_file_of_others_is_named(tmp_path: Path) -> None:
    for number in range(2):
        _ROWS.write_parquet(tmp_path / f"{number}.parquet")
    (tmp_path / "[0]*").mkdir()
    _ROWS.write_parquet(tmp_path / "[0]*" / "2.parquet")
    _overwritten_inside(tmp_path / "1.parquet")
    with pytest.raises(ps.FileError, match="cannot be read"):
        _QUERY.run(ps.archive(tmp_path), ties="first")


def test_a_copy_may_lack_folders_in_which_nothing_is(place: Path) -> None:
    (place / "pending").rmdir()
    (place / "lock").unlink()
    lake = ps.archive(place)
    assert lake.append(pl.DataFrame({"ts": [200], "car": [0], "x": [1]})) == 1
    assert lake.verify() == []


def test_where_nothing_can_be_written_it_is_said_and_all_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied", str(place / "lock"))

    lake = ps.archive(place)
    monkeypatch.setattr(lock.os, "open", refuse)
    for change in (lambda: lake.append(_ROWS[:1]), lake.compact, lambda: lake.retain(since=5)):
        with pytest.raises(ps.ArchiveError, match=r"cannot be written: .*the right to write"):
            change()
    assert len(_QUERY.run(lake)) == len(_QUERY.run(_ROWS))
    assert durable.checksum(lake.files[0]) > 0
