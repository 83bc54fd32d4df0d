"""Changes of an archive that put new files in the place of old ones: compaction and retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from piestream.archives.manifest import DataFile, Manifest
from piestream.archives.store import Store, in_ticks
from piestream.archives.times import length_in_ticks, time_in_ticks
from piestream.expressions.durations import DurationLike

__all__ = ["compacted", "retained"]


def compacted(store: Store, manifest: Manifest) -> tuple[Manifest, int]:
    """The generation in which small and overlapping files are merged, and how many there were of them."""
    replaced = 0
    for group in _to_merge(manifest.files, manifest.file_rows):
        manifest = store.commit(manifest, group, store.merged(manifest, group))
        replaced += len(group)
    return manifest, replaced


def _to_merge(files: Sequence[DataFile], file_rows: int) -> list[list[DataFile]]:
    """Groups of files that follow each other in time and are to become new ones."""
    groups: list[list[DataFile]] = []
    last = None
    for file in sorted(files, key=lambda file: (file.first, file.last)):
        rows = sum(one.rows for one in groups[-1]) if groups else 0
        overlaps = last is not None and file.first <= last
        if overlaps or (groups and 2 * rows < file_rows and 2 * file.rows < file_rows):
            groups[-1].append(file)
        else:
            groups.append([file])
        last = file.last if last is None else max(last, file.last)
    return [group for group in groups if len(group) > 1]


def retained(
    store: Store, manifest: Manifest, keep: DurationLike | None, since: Any
) -> tuple[Manifest, int]:
    """The generation without old rows, and how many these were."""
    if not manifest.files:
        return manifest, 0
    first = _first_kept(manifest, keep, since)
    old = [file for file in manifest.files if file.first < first]
    if not old:
        return manifest, 0
    cut = [file for file in old if file.last >= first]
    kept = [_since(store.read([file]), manifest.time, first) for file in cut]
    numbers = [file.number for file in cut]  # what was appended first stays the first
    manifest = store.commit(manifest, old, kept, numbers=numbers)
    return manifest, sum(file.rows for file in old) - sum(map(len, kept))


def _first_kept(manifest: Manifest, keep: DurationLike | None, since: Any) -> int:
    """The first time that stays, in ticks."""
    schema = manifest.columns
    assert schema is not None
    dtype = schema[manifest.time]
    if keep is not None:
        last = max(file.last for file in manifest.files)
        return last - length_in_ticks(keep, manifest.time, dtype, "keep")
    return time_in_ticks(since, manifest.time, dtype)


def _since(rows: pl.DataFrame, time: str, first: int) -> pl.DataFrame:
    return rows.filter(in_ticks(time) >= first)
