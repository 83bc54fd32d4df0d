"""Parquet files of whatever kind give what they give as one frame, however little is read of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piestream as ps
from piestream.archives import cores, costs, planning
from piestream.archives.planning import ArchivePlan
from piestream.language.options import FileOptions

_MOST = 2**63 - 1
_LONG = "ab" * 60


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select however much is to be read: these files are small."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    monkeypatch.setattr(planning, "LOOKED_AT", 0.5)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)
    monkeypatch.setattr(cores, "_LEAST_SHARE", 1)


#: Columns of a type: its common values, its rare ones, and conditions that tell these apart.
_VALUES: list[tuple[pa.DataType, Sequence[Any], Sequence[Any], Sequence[str]]] = [
    (pa.int8(), (0, 1), (-128, 127), ("x > 100", "x < -100", "abs(x) > 100")),
    (pa.int64(), (0, 1), (_MOST, -_MOST - 1), (f"x >= {_MOST}", "x < -5", "x + 1 > 3")),
    (pa.uint32(), (0, 1), (2**32 - 1,), ("x > 5", "x > 4294967294", "x < 1")),
    (pa.uint64(), (0, 1), (2**64 - 1, 2**63), ("x > 5", f"x = {2**64 - 1}", "x < 1")),
    (pa.float32(), (0.1, 1.5), (math.inf, math.nan, 0.3), ("x > 5", "x > 0.299999", "NOT x < 3")),
    (pa.float64(), (math.nan,), (1.0, math.inf), ("x > 0", "x IS NULL", "coalesce(x, 7) > 5")),
    (pa.float64(), (0.0, 1.0), (-0.0,), ("x <= 0", "1 / x < 0", "x = 0")),
    (pa.decimal128(9, 2), (Decimal("0.10"),), (Decimal("0.30"), Decimal("-7.25")),
     ("x = 0.3", "x < 0", "x >= 0.3 AND x <= 0.3")),
    (pa.decimal128(38, 3), (Decimal("123456789012345.678"),), (Decimal("123456789012345.679"),),
     ("x > 123456789012345.678", "x = 123456789012345.679")),
    (pa.string(), ("a", "b"), ("zé", "", "\U0010ffff", "ab\0c"), ("x > 'y'", "x LIKE 'z%'", "x = ''")),
    (pa.string(), ("a", _LONG), ("\U0010ffff" * 70, _LONG + "x"), (f"x = '{_LONG}x'", "x > 'zzz'")),
    (pa.dictionary(pa.int32(), pa.string()), ("a", "b"), ("zz",), ("x > 'y'", "x = 'zz'")),
    (pa.bool_(), (False,), (True,), ("x", "NOT x", "x IS NULL")),
    (pa.date32(), (date(2020, 1, 1),), (date(2020, 1, 30),), ("x > DATE '2020-01-20'",)),
    (pa.int64(), (None,), (None,), ("x IS NULL", "x IS NOT NULL")),
]  # fmt: skip

#: Columns of times, and a window over them.
_TIMES: list[tuple[pa.DataType, Callable[[int], int], str]] = [
    (pa.int64(), lambda t: t, "20"),
    (pa.uint16(), lambda t: t, "20"),
    (pa.int64(), lambda t: _MOST - 1000 + t, "20"),
    (pa.int64(), lambda t: -_MOST + t, "20"),
    (pa.timestamp("ms", "UTC"), lambda t: t, "20 ms"),
    (pa.timestamp("ns"), lambda t: t, "20 ns"),
    (pa.timestamp("us", "Europe/Berlin"), lambda t: t * 1_800_000_000, "10 hours"),
    (pa.date32(), lambda t: t, "20 days"),
]

_KEYS: list[tuple[pa.DataType, Sequence[Any]]] = [
    (pa.int64(), (1, 2, None)),
    (pa.uint64(), (1, 2**64 - 1, None)),
    (pa.string(), ("a", "c" * 90, None)),
    (pa.float64(), (math.nan, 1.0, None)),
    (pa.dictionary(pa.int32(), pa.string()), ("a", "b", None)),
    (pa.bool_(), (True, False, None)),
    (pa.decimal128(5, 1), (Decimal("1.5"), Decimal("2.5"))),
]


def _drawn(rng: Random) -> tuple[pa.Table, str]:
    """Rows, and a query over them."""
    n = rng.randint(1, 120)
    dtype, common, rare, conditions = rng.choice(_VALUES)
    values = [rng.choice([*common, None] if rng.random() < 0.9 else rare) for _ in range(n)]
    of_time, shown, window = rng.choice(_TIMES)
    times = [shown(t) for t in sorted(rng.sample(range(4 * n), n))]
    columns = {
        "ts": pa.array(times, pa.int32() if pa.types.is_date32(of_time) else pa.int64()).cast(
            of_time
        ),
        "x": pa.array(values, dtype),
        "b": pa.array([rng.random() < 0.2 for _ in range(n)]),
    }
    keys = ""
    if rng.random() < 0.6:
        of_key, some = rng.choice(_KEYS)
        columns["k"], keys = (
            pa.array([rng.choice(some) for _ in range(n)], of_key),
            "PARTITION BY k",
        )
    if rng.random() < 0.4:  # the paths of its fields are names of columns, too
        columns["s"] = pa.array([{"x": 5, "ts": i} for i in range(n)])
        columns["s.x"] = pa.array([0.5] * n)
    rows = pa.table(columns)
    if rng.random() < 0.3:
        rows = rows.take(pa.array(rng.sample(range(n), n)))
    pattern, define = rng.choice(
        [("a", ""), ("a intersects q", ", q AS b"), ("a before q", ", q AS b")]
    )
    emit = rng.choice(["", "EMIT ON COMPLETION", "EMIT ON BOTH", "LIMIT 3"])
    returns = rng.choice(["", "RETURN MAX(a.x) AS m, FIRST(a.x) AS f, COUNT(a.x) AS n"])
    return rows, (
        f"FROM s {keys} ORDER BY ts DEFINE a AS {rng.choice(conditions)}{define} "
        f"PATTERN {pattern} WITHIN {window} {emit} {returns}"
    )


def _write(rows: pa.Table, folder: Path, rng: Random) -> None:
    """The rows as files whose statistics are of several kinds, or missing."""
    size = max(1, len(rows) // rng.choice([1, 2, 4]))
    kinds: list[dict[str, Any]] = [
        {}, {"write_statistics": False}, {"write_page_index": True},
        {"write_statistics": ["ts"], "use_dictionary": False}, {"write_statistics": ["x"], "use_dictionary": False},
    ]  # fmt: skip
    kind = rng.choice(kinds)
    for number, first in enumerate(range(0, len(rows), size)):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(
            rows[first : first + size], path, row_group_size=rng.choice([1, 3, 99]), **kind
        )


def _in_one_order(rows: pl.DataFrame) -> list[str]:
    """Rows as texts, without the signs of zeros: of a key both are one."""
    floats = [name for name, dtype in rows.schema.items() if dtype.is_float()]
    zeros = [pl.when(pl.col(f) == 0).then(0.0).otherwise(pl.col(f)).alias(f) for f in floats]
    return sorted(map(repr, rows.with_columns(zeros).rows()))


def test_the_rows_are_those_of_all_files_as_a_frame(
    tmp_path: Path, seeds_in_all: Callable[[int], list[int]]
) -> None:
    selected, matched, seeds = 0, 0, seeds_in_all(60)
    for seed in seeds:
        rng = Random(f"plain {seed}")
        rows, text = _drawn(rng)
        folder = tmp_path / str(seed)
        folder.mkdir()
        _write(rows, folder, rng)
        query = ps.query(text)
        whole = pl.scan_parquet(sorted(folder.glob("*.parquet")), glob=False).collect()
        expected, lake = query.run(whole), ps.archive(folder)
        found = query.run(lake)
        assert found.schema == expected.schema, f"seed {seed}: {text}"
        assert _in_one_order(found) == _in_one_order(expected), f"seed {seed}: {text}"
        selected += ArchivePlan(query, lake.pages, FileOptions()).cores is not None
        matched += len(found) > 0
    assert selected > len(seeds) / 4
    assert matched > len(seeds) / 6


def test_a_column_named_as_a_path_has_bounds_of_its_own(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "ts": list(range(100)),
            "s.x": [9 if ts == 50 else 0 for ts in range(100)],
            "s": [{"x": 0}] * 100,
        }
    )
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=10)
    query = ps.query('FROM t ORDER BY ts DEFINE a AS "s.x" > 5 PATTERN a WITHIN 9')
    assert len(query.run(ps.archive(tmp_path))) == 1


_QUERY = ps.query("FROM s ORDER BY ts DEFINE a AS x > 5 PATTERN a WITHIN 9")


@pytest.mark.parametrize(
    ("times", "dtype", "why"),
    [
        ([1, None, 3], pl.Int64, "NULL in row 1"),
        ([1, 2, 2**63 + 5], pl.UInt64, "beyond 64 bits"),
        ([1, 2, _MOST], pl.Int64, "strictly between the ends"),
        ([-_MOST - 1, 2, 3], pl.Int64, "strictly between the ends"),
    ],
)
def test_a_time_that_no_event_may_have_is_refused_wherever_it_lies(
    tmp_path: Path, times: list[int | None], dtype: Any, why: str
) -> None:
    rows = pl.DataFrame({"ts": pl.Series(times, dtype=dtype), "x": [0, 0, 0]})
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=1)
    with pytest.raises(ps.TimeError, match=why):
        _QUERY.run(ps.archive(tmp_path))
    if times[1] is not None:
        with pytest.raises(ps.TimeError, match="64-bit range"):
            ps.archive(tmp_path / "own", time="ts").append(rows)


@pytest.mark.parametrize("is_selecting", [True, False])
def test_files_whose_columns_are_of_other_types_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_selecting: bool
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0 if is_selecting else 1 << 40)
    first = pl.DataFrame({"ts": [1, 2], "x": [7, 0]})
    first.write_parquet(tmp_path / "a.parquet")
    later = first.with_columns(ts=pl.col("ts") + 2)
    later.with_columns(x=pl.col("x").cast(pl.Float64)).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        ps.SchemaError, match=r"b\.parquet: its column x has type Float64, and in .*Int64"
    ):
        _QUERY.run(ps.archive(tmp_path))
    later.drop("x").write_parquet(tmp_path / "b.parquet")
    with pytest.raises(ps.SchemaError, match=r'other columns than the first one: .*"x"'):
        _QUERY.run(ps.archive(tmp_path))


def test_files_of_other_types_are_named_among_several_streams(tmp_path: Path) -> None:
    rows = pl.DataFrame({"ts": [1, 2], "x": [7, 0]})
    rows.write_parquet(tmp_path / "a.parquet")
    rows.with_columns(pl.col("x").cast(pl.UInt8)).write_parquet(tmp_path / "b.parquet")
    query = ps.query(
        "FROM s ORDER BY ts WITH t ORDER BY ts DEFINE a AS s.x > 5, b AS t.x > 5 PATTERN a before b WITHIN 9"
    )
    with pytest.raises(ps.SchemaError, match=r"other columns than the first one: .* column x"):
        query.run({"s": ps.archive(tmp_path), "t": rows}, at_end="close")
