"""Time columns: types, units, order, ties, and the ends of what 64 bits hold."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import piestream as ps

HIGHEST, LOWEST = 2**63 - 1, -(2**63)


def one(within: str, order: str = "ORDER BY t", rest: str = "") -> ps.Query:
    return ps.query(f"FROM s {order} DEFINE a AS x > 1 PATTERN a WITHIN {within} {rest}")


def frame(times: Any, *values: int, dtype: Any = None) -> pl.DataFrame:
    return pl.DataFrame({"t": pl.Series(times, dtype=dtype), "x": list(values)})


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kathmandu"])
def test_datetimes_keep_their_type_and_count_their_own_ticks(unit: Any, zone: str | None) -> None:
    dtype = pl.Datetime(unit, zone)
    times = pl.Series([0, 5_000, 12_000]).cast(pl.Datetime("ms")).cast(pl.Datetime(unit))
    times = times.dt.replace_time_zone(zone)
    query = one("1 min", rest="EMIT ON COMPLETION RETURN a.ts, a.te, DURATION(a) AS d")
    result = query.run(frame(times, 5, 5, 0))
    assert result.schema == {
        "completed_at": dtype,
        "a_ts": dtype,
        "a_te": dtype,
        "d": pl.Duration(unit),
    }
    assert result["d"].to_list() == [timedelta(seconds=12)]
    assert result["a_te"].to_list() == [times[2]]
    bounded = ps.query(str(query).replace("x > 1", "x > 1 AT MOST 11999 ms"))
    assert bounded.run(frame(times, 5, 5, 0)).height == 0


def test_dates_count_days() -> None:
    days = [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 2)]
    text = "RETURN a.ts, a.te, DURATION(a)"
    result = one("3 d", rest=f"EMIT ON COMPLETION {text}").run(frame(days, 5, 5, 0))
    assert result.row(0) == (days[2], days[0], days[2], timedelta(days=3))
    assert one("2 d", rest=f"EMIT ON COMPLETION {text}").run(frame(days, 5, 5, 0)).height == 0
    with pytest.raises(ps.QueryError, match="not a whole number of ticks: one tick is 1 d"):
        one("36 h").run(frame(days, 5, 5, 0))


def test_a_unit_on_an_integer_column_must_be_declared() -> None:
    with pytest.raises(ps.QueryError, match="whose unit was not declared"):
        one("5 s").run(frame([1], 5))
    declared = one("5 s", "ORDER BY t UNIT ms", "EMIT ON COMPLETION")
    assert declared.run(frame([0, 5_000], 5, 0)).height == 1
    assert declared.run(frame([0, 5_001], 5, 0)).height == 0


def test_a_bare_number_counts_ticks_of_integer_columns() -> None:
    for declared in ("ORDER BY t", "ORDER BY t UNIT s"):
        assert one("7", declared, "EMIT ON COMPLETION").run(frame([0, 7], 5, 0)).height == 1
        assert one("6", declared, "EMIT ON COMPLETION").run(frame([0, 7], 5, 0)).height == 0


@pytest.mark.parametrize(
    ("dtype", "units"),
    [
        (pl.Date(), "write 60 d or 60 w"),
        (pl.Datetime("ms"), "60 s, 60 min, 60 h or 60 d; the units are ms, s, min, h, d, w"),
        (pl.Datetime("ns", "UTC"), "the units are ns, us, ms, s, min, h, d, w"),
    ],
)
def test_a_bare_number_is_an_error_on_dates_and_timestamps_and_units_are_offered(
    dtype: pl.DataType, units: str
) -> None:
    rows = frame(pl.Series([0, 7]).cast(dtype), 5, 0)
    text = (
        "FROM s ORDER BY t MAX GAP 60 DEFINE a AS x > 1 AT LEAST 60, b AS x > 2 AT MOST 60 "
        "PATTERN a contains b WITHIN 60"
    )
    with pytest.raises(ps.QueryError) as raised:
        ps.query(text).run(rows)
    faults = raised.value.faults
    found = [fault.message.split(" is 60 without a unit")[0] for fault in faults]
    assert found == ["MAX GAP", "AT LEAST of a", "AT MOST of b", "WITHIN"]
    assert all(units in (fault.hint or "") for fault in faults)
    assert str(raised.value).count("^^") == 4
    built = ps.pattern(ps.define("a", "x > 1", at_least=60)).order_by("t").within(60)
    with pytest.raises(ps.QueryError, match="AT LEAST of a is 60 without a unit"):
        built.run(rows)
    with pytest.raises(ps.QueryError, match="the lateness is 60 without a unit"):
        one("5 d").open(lateness=60, schema=rows.schema)


def test_zero_is_the_same_in_every_unit() -> None:
    times = pl.Series([0, 7]).cast(pl.Datetime("us"))
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 0 PATTERN a WITHIN 0")
    assert query.run(frame(times, 5, 0)).height == 1
    query.open(lateness=0, schema={"t": datetime, "x": int}).push({"t": datetime.now(), "x": 5})


def test_a_unit_beside_a_datetime_column_is_refused() -> None:
    with pytest.raises(ps.QueryError, match="UNIT is for integer time columns"):
        one("5 s", "ORDER BY t UNIT s").run(frame([datetime(2024, 1, 1)], 5))


@pytest.mark.parametrize("unit", ["fortnight", "lightyears"])
def test_an_unknown_unit_is_refused(unit: str) -> None:
    with pytest.raises(ps.QueryError, match=unit):
        one(f"5 {unit}")


def test_the_only_datetime_column_is_the_time() -> None:
    times = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    unnamed = one("3 d", order="")
    assert unnamed.run(frame(times, 5, 0)).height == 1
    with pytest.raises(ps.QueryError, match="several date or datetime columns: t, u"):
        unnamed.run(frame(times, 5, 0).with_columns(u=pl.col("t")))
    with pytest.raises(ps.QueryError, match="no date or datetime column"):
        unnamed.run(frame([1, 2], 5, 0))


@pytest.mark.parametrize("times", [["1", "2"], [1.0, 2.0], [True, False]])
def test_a_column_of_another_type_is_no_time(times: list[Any]) -> None:
    with pytest.raises(ps.QueryError, match="must be an integer, a date or a datetime"):
        one("9").run(frame(times, 5, 0))


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
)
def test_every_integer_type_is_kept(dtype: Any) -> None:
    result = one("9", rest="EMIT ON COMPLETION").run(frame([1, 2], 5, 0, dtype=dtype))
    assert result.schema["completed_at"] == dtype
    assert result.row(0) == (2, 1, 2)


def test_a_null_time_is_refused_with_its_row() -> None:
    with pytest.raises(ps.TimeError, match="the time column t is NULL in row 1"):
        one("9").run(frame([1, None], 5, 5))


@pytest.mark.parametrize("reserved", [HIGHEST, LOWEST])
def test_the_very_ends_of_64_bits_are_refused(reserved: int) -> None:
    with pytest.raises(ps.TimeError, match="reserved"):
        one("9").run(frame([0, reserved], 5, 5))


def test_times_beyond_64_bits_are_refused() -> None:
    with pytest.raises(ps.TimeError, match=r"holds 18446744073709551615, .* 64 bits with a sign$"):
        one("9").run(frame([1, 2**64 - 1], 5, 5, dtype=pl.UInt64))


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_wider_columns_of_times_are_refused_with_what_makes_times_of_them(dtype: Any) -> None:
    with pytest.raises(
        ps.QueryError, match=r"integer of up to 64 bits[\s\S]*t\"\)\.cast\(pl\.Int64"
    ):
        one("9").run(frame([1, 2], 5, 5, dtype=dtype))


def test_times_next_to_the_ends_are_worked_on() -> None:
    result = one(str(HIGHEST), rest="EMIT ON COMPLETION").run(
        frame([LOWEST + 1, LOWEST + 2, HIGHEST - 2, HIGHEST - 1], 5, 0, 5, 0)
    )
    assert result["a_ts"].to_list() == [LOWEST + 1, HIGHEST - 2]


def test_durations_longer_than_63_bits_do_not_overflow() -> None:
    """From next to the lowest time to next to the highest is more than any window."""
    apart = ps.query(
        f"FROM s ORDER BY t DEFINE a AS x > 1, b AS x < 0 PATTERN a before b WITHIN {HIGHEST}"
    )
    assert apart.run(frame([LOWEST + 1, 0, HIGHEST - 1], 5, 0, -1)).height == 0
    assert apart.run(frame([0, 1, HIGHEST - 1], 5, 0, -1)).height == 1
    long = ps.query(
        f"FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST {HIGHEST} PATTERN a WITHIN {HIGHEST}"
    )
    assert long.run(frame([-1, HIGHEST - 1], 5, 0)).height == 1
    assert long.run(frame([0, HIGHEST - 1], 5, 0)).height == 0


def test_a_window_of_zero_allows_what_is_reported_at_its_start() -> None:
    assert one("0").run(frame([1, 2], 5, 0))["a_ts"].to_list() == [1]
    assert one("0", rest="EMIT ON COMPLETION").run(frame([1, 2], 5, 0)).height == 0


# Order and ties


def test_a_bounded_frame_is_sorted() -> None:
    shuffled = frame([3, 1, 2, 5, 4], 0, 5, 5, 0, 5)
    assert one("9", rest="EMIT ON COMPLETION").run(shuffled).rows() == [(3, 1, 3), (5, 4, 5)]


TIED = frame([1, 2, 2, 3], 0, 5, 0, 0)


def test_a_tie_is_an_error_that_names_the_event() -> None:
    with pytest.raises(ps.TieError, match=r"t = 2.*ties='first'"):
        one("9").run(TIED)
    keyed = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ps.TieError, match="k = 'cab', t = 2"):
        keyed.run(TIED.with_columns(k=pl.lit("cab")))


def test_the_first_or_the_last_of_a_tie_can_be_kept() -> None:
    assert one("9").run(TIED, ties="first")["a_ts"].to_list() == [2]
    assert one("9").run(TIED, ties="last").height == 0


@pytest.mark.parametrize("options", [{"ties": "both"}, {"on_late": "ignore"}])
def test_an_option_that_is_not_there_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is one of .*, not '"):
        one("9").run(TIED, **options)
    with pytest.raises(ValueError, match=r"is one of .*, not '"):
        one("9").open(**options)


# Silences


def test_a_bounded_run_ends_silences_that_are_over_by_the_largest_time_of_all() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY t MAX GAP 3 DEFINE a AS x > 1 PATTERN a WITHIN 99 "
        "EMIT ON COMPLETION"
    )
    quiet = pl.DataFrame({"k": ["q", "q"], "t": [1, 2], "x": [5, 5]})
    for last, ended in ((5, []), (6, [("q", 5, 1, 5)])):  # longer than 3 after 2
        other = pl.DataFrame({"k": ["o"], "t": [last], "x": [0]})
        assert query.run(pl.concat([quiet, other])).rows() == ended


def test_prev_reads_the_row_before_and_never_the_end_of_a_silence() -> None:
    query = ps.query("FROM s ORDER BY t MAX GAP 3 DEFINE a AS x = PREV(x) PATTERN a WITHIN 99")
    assert query.run(frame([1, 2, 10, 11], 5, 5, 5, 0))["a_ts"].to_list() == [2, 10]
