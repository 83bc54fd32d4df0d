"""An archive is always one of its generations, whenever and wherever its writer is stopped."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import piestream as ps
from tests.archives.writer import ROWS, opened, rows_of


class Stopped(BaseException):
    """The process is gone, as far as an archive can tell."""


_CALLS = ("replace", "fsync", "unlink")


def _stop_at(step: int, patch: pytest.MonkeyPatch, calls: tuple[str, ...] = _CALLS) -> list[int]:
    """Let the process be gone at one of the calls that change what is on the disk."""
    seen = [0]

    def stopping(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            seen[0] += 1
            if seen[0] > step:
                raise Stopped
            return function(*args, **named)

        return call

    for name in calls:
        patch.setattr(os, name, stopping(getattr(os, name)))
    return seen


def _rows(path: Path) -> list[tuple[int, int]]:
    lake = ps.archive(path)
    found = lake.scan().group_by("batch").len().sort("batch").collect()
    return found.rows()


_CHANGES: dict[str, Callable[[ps.Archive], object]] = {
    "append": lambda lake: lake.append(rows_of(9), batch=9),
    "compact": lambda lake: lake.compact(),
    "retain": lambda lake: lake.retain(since=ROWS + 7),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_a_change_that_is_stopped_anywhere_has_happened_or_not(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = opened(str(tmp_path / "whole"))
    for batch in range(1, 4):
        whole.append(rows_of(batch))
    before, generation = _rows(whole.path), whole.generation
    for step in range(200):
        path = tmp_path / f"lake{step}"
        shutil.copytree(whole.path, path)
        lake = ps.archive(path)
        stopped = False
        with monkeypatch.context() as patch:
            _stop_at(step, patch)
            try:
                _CHANGES[change](lake)
            except Stopped:
                stopped = True
        again = ps.archive(path)
        assert again.verify() == []
        if again.generation == generation:
            assert _rows(path) == before
        _CHANGES[change](again)
        assert again.append(rows_of(77)) == ROWS
        # nothing is left that other engines would take for rows
        assert {p.name for p in (path / "rows").iterdir()} == {p.name for p in again.files}
        assert {n for b, n in _rows(path) if b == 77} == {ROWS}
        if change == "append":
            assert _rows(path) == [*before, (9, ROWS), (77, ROWS)]
        if change == "compact":
            assert _rows(path) == [*before, (77, ROWS)]
        if not stopped:
            return
    raise AssertionError("the change never got to its end")


def test_an_archive_whose_creation_is_stopped_can_be_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(50):
        path = tmp_path / f"lakes{step}" / "lake"
        stopped = False
        with monkeypatch.context() as patch:
            _stop_at(step, patch, (*_CALLS, "mkdir"))
            try:
                opened(str(path))
            except Stopped:
                stopped = True
        assert opened(str(path)).append(rows_of(1)) == ROWS
        if not stopped:
            assert step > 5
            return
    raise AssertionError("it was never created")


def test_a_new_archive_is_flushed_into_the_directories_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from piestream.archives import durable

    flushed = []
    monkeypatch.setattr(durable, "flush_directory", flushed.append)
    opened(str(tmp_path / "lakes" / "lake"))
    assert {tmp_path, tmp_path / "lakes", tmp_path / "lakes" / "lake"} <= set(flushed)


def test_files_of_others_in_the_folders_of_an_archive_are_left_alone(tmp_path: Path) -> None:
    lake = opened(str(tmp_path))
    lake.append(rows_of(1))
    (tmp_path / "rows" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "rows" / "0000000099.parquet").write_bytes(b"left by a writer")
    others = [tmp_path / "rows" / "_SUCCESS", tmp_path / "rows" / "copy of 0000000000.parquet"]
    for path in others:
        path.touch()
    assert lake.append(rows_of(2)) == ROWS
    assert all(path.exists() for path in others)
    assert not (tmp_path / "rows" / "0000000099.parquet").exists()


def test_an_archive_that_another_process_has_changed_is_sound(tmp_path: Path) -> None:
    lake = opened(str(tmp_path))
    for batch in (1, 1, 2):
        lake.append(rows_of(batch))
    assert ps.archive(tmp_path).compact() > 1
    assert not lake.files[0].exists()
    assert lake.verify() == []


def test_a_change_while_files_are_verified_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from piestream.archives import store

    lake = opened(str(tmp_path))
    for batch in (1, 1, 2):
        lake.append(rows_of(batch))
    checksum, changed = store.checksum, []

    def changing(path: Path) -> int:
        if not changed:
            changed.append(ps.archive(tmp_path).compact())
        return checksum(path)

    with monkeypatch.context() as patch:
        patch.setattr(store, "checksum", changing)
        assert lake.verify() == []
    assert changed[0] > 1


def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = str(tmp_path / "lake")
    draw = random.Random(4)
    opened(path).append(rows_of(0), batch=0)
    done, first = {0}, 1
    for kill in range(int(os.environ.get("PIESTREAM_KILLS", "3"))):
        command = [sys.executable, "-m", "tests.archives.writer", path, str(first), str(kill)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(draw.random() * 0.2)
            process.kill()
            done |= {int(line) for line in process.stdout.read().split("\n")[:-1]}
        found = dict(_rows(Path(path)))
        assert set(found.values()) <= {ROWS}
        assert done <= set(found)
        assert len(found) <= len(done) + kill + 1
        assert ps.archive(path).verify() == []
        first = max(done) + 2
    lake = ps.archive(path)
    assert lake.append(rows_of(max(done)), batch=max(done)) == 0


def test_a_second_writer_gets_an_error_that_says_so(tmp_path: Path) -> None:
    lake = opened(str(tmp_path))
    lake.append(rows_of(1))
    assert lake._store is not None
    with lake._store.writing():
        with pytest.raises(ps.ArchiveError, match=rf"by another process \({os.getpid()}\)"):
            ps.archive(tmp_path).append(rows_of(2))
        assert ps.archive(tmp_path).scan().collect().height == ROWS  # readers need no lock
    assert ps.archive(tmp_path).append(rows_of(2)) == ROWS


def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    lake = opened(str(tmp_path))
    lake.append(rows_of(1))
    path = lake.files[0]
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    (fault,) = lake.verify()
    assert "is damaged" in fault
    path.unlink()
    (fault,) = lake.verify()
    assert "is missing" in fault


def test_statistics_of_other_rows_are_found(tmp_path: Path) -> None:
    from dataclasses import replace

    from piestream.archives.durable import checksum

    lake = opened(str(tmp_path))
    lake.append(rows_of(1))
    assert lake._store is not None
    assert lake._manifest is not None
    (file,) = lake._manifest.files
    place = lake._store.statistics_path(file)
    pl.read_ipc(place).with_columns(pl.col("max:ts") + 1).write_ipc(place, compression="zstd")
    changed = replace(file, statistics_crc32=checksum(place))
    lake._store._replace_manifest(replace(lake._manifest, files=(changed,)))
    (fault,) = lake.verify()
    assert "does not say what is in" in fault
