"""Sessions of queries over live streams and archives, and what they refuse."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs
from piestream.archives.live_stream import LiveStream
from piestream.archives.pages import Pages
from piestream.archives.store import Store

_FALL = (
    "(FROM trades ORDER BY ts DEFINE down AS price < PREV(price) PATTERN down WITHIN 10 "
    "RETURN FIRST(down.price) AS top)"
)
_RISE = (
    "(FROM ARCHIVE '{path}' ORDER BY ts DEFINE up AS price > PREV(price) PATTERN up WITHIN 10 "
    "RETURN LAST(up.price) AS top)"
)
_TEXT = f"""
    FROM {_FALL} AS fall
    WITH {_RISE} AS rise
    PARTITION BY symbol
    DEFINE f AS fall.top > 0, r AS rise.top > 0
    PATTERN r before; meets; overlaps f
    WITHIN 7
    WHERE r.top >= f.top
    RETURN r.ts AS r_ts, f.te AS f_te
"""


def _query(path: str | Path = "trades", **more: str) -> Any:
    text = _TEXT.format(path=path)
    for old, new in more.items():
        assert old.replace("_", " ") in text
        text = text.replace(old.replace("_", " "), new)
    return ps.query(text)


def _ticks(prices: list[float], first: int = 0, symbol: str = "X") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ts": range(first, first + len(prices)),
            "symbol": [symbol] * len(prices),
            "price": prices,
        },
        schema={"ts": pl.Int64, "symbol": pl.String, "price": pl.Float64},
    )


_PAST, _LIVE = _ticks([1.0, 2.0, 5.0, 4.0]), _ticks([3.0, 6.0, 6.0, 2.0, 2.0, 1.0], 4)


@pytest.fixture
def lake(tmp_path: Path) -> ps.Archive:
    """An archive of four ticks."""
    found = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    found.append(_PAST)
    return found


def test_the_past_of_a_stream_is_read_where_the_query_says_it_is(lake: ps.Archive) -> None:
    query = _query(lake.path)
    session = query.open()
    found = session.push(_LIVE).rows() + session.close().rows()
    assert found == query.run({"trades": _LIVE}).rows()
    assert found == [("X", 8, 1, 8), ("X", 8, 5, 8)]


@pytest.mark.parametrize("plan", ["live-first", "archive-first", "eager"])
def test_a_file_that_is_overwritten_is_read_again(tmp_path: Path, plan: Any) -> None:
    path = tmp_path / "trades" / "rows.parquet"
    path.parent.mkdir()
    _PAST.write_parquet(path)
    session = _query(path.parent).open(plan=plan)
    assert session.push(_LIVE[:1]).rows() == []
    before = path.stat()
    _ticks([3.0, 2.0, 5.0, 6.0]).write_parquet(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))  # clocks may be coarse
    found = session.push(_LIVE[1:]).rows() + session.close().rows()
    assert found == [("X", 8, 2, 8), ("X", 8, 5, 8)]


def test_a_run_reads_only_the_pages_around_live_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ps.archive(
        tmp_path / "trades", time="ts", key="symbol", page_rows=1000, file_rows=20_000
    )
    prices = [float(i % 7) for i in range(20_000)]
    lake.append(pl.concat([_ticks(prices), _ticks(prices, symbol="Y")]))
    live = _ticks([3.0, 2.0, 4.0], 15_004)
    read: list[int] = []
    pages = Pages.read

    def counting(self: Pages, chosen: Any, *more: Any) -> list[pl.DataFrame]:
        read.append(int(self.rows[chosen].sum()))
        return pages(self, chosen, *more)

    monkeypatch.setattr(Pages, "read", counting)
    query = _query()
    for monkey_cost, most in ((1.0, 2000), (0.0, 40_000)):
        monkeypatch.setattr(costs, "MOST_COST", monkey_cost)
        read.clear()
        found = query.run({"trades": live}, archives={"trades": lake})
        assert found.rows() == [("X", 15_006, 15_002, 15_006)]
        assert 0 < sum(read) <= most
    assert (
        found.rows() == query.run({"trades": live}, archives={"trades": lake}, plan="eager").rows()
    )


def test_a_time_that_the_query_does_not_name_is_that_of_the_past_too(tmp_path: Path) -> None:
    def timed(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col("ts").cast(pl.Datetime("us")))

    lake = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    lake.append(timed(_PAST))
    text = _TEXT.format(path="trades").replace(" ORDER BY ts", "")
    for unit in ("WITHIN 10", "WITHIN 7"):
        text = text.replace(unit, unit + " us")
    rows = {"trades": timed(_LIVE)}
    found = [
        ps.query(text).run(rows, archives={"trades": lake}, plan=plan).rows()
        for plan in ("auto", "eager")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_rows_of_the_session_count_as_its_past_before_they_are_archived(tmp_path: Path) -> None:
    empty = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    query = _query()
    session = query.open(archives={"trades": empty})
    found = session.push(pl.concat([_PAST, _LIVE])).rows() + session.close().rows()
    assert found
    assert (
        found == query.run({"trades": pl.concat([_PAST, _LIVE])}, archives={"trades": empty}).rows()
    )


def test_a_row_that_is_archived_later_counts_once(lake: ps.Archive) -> None:
    alone = _query().open(archives={"trades": lake}, plan="live-first")
    expected = [row for tick in _LIVE.iter_slices(1) for row in alone.push(tick).rows()]
    session = _query().open(archives={"trades": lake}, plan="live-first")
    found = []
    for tick in _LIVE.iter_slices(1):
        found += session.push(tick).rows()
        lake.append(tick)
    assert found == expected


@pytest.mark.parametrize("plan", ["eager", "live-first", "archive-first"])
def test_late_rows_of_the_archive_count_from_the_next_match_on(lake: ps.Archive, plan: Any) -> None:
    other = _ticks([1.5, 1.0, 1.0, 3.0, 2.0, 2.0], 4, "Y")
    session = _query().open(archives={"trades": lake}, plan=plan)
    before = session.push(pl.concat([_LIVE[:5], other[:5]]).sort("ts")).rows()
    lake.append(_ticks([7.0, 8.0], 2, "Y"))
    found = session.push(pl.concat([_LIVE[5:], other[5:]])).rows() + session.close().rows()
    assert ("Y", 6, 3, 6) not in before
    assert ("Y", 9, 3, 9) in found


@pytest.mark.parametrize("plan", ["eager", "live-first", "archive-first"])
def test_a_late_row_before_all_others_says_how_the_first_run_began(
    lake: ps.Archive, plan: Any
) -> None:
    rows = _ticks([3.0, 2.0, 2.0, 2.0, 1.0, 1.0], 4, "Y")
    session = _query().open(archives={"trades": lake}, plan=plan)
    before = session.push(rows[:4]).rows()
    lake.append(_ticks([1.0], -20, "Y"))
    found = session.push(rows[4:]).rows() + session.close().rows()
    assert (before, found) == ([], [("Y", 9, 4, 9)])


def test_an_archive_without_rows_counts_from_its_first_ones_on(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    query = _query(FROM_trades="FROM news")
    session = query.open(archives={"trades": lake})
    early, late = _ticks([3.0, 2.0, 2.0]), _ticks([3.0, 2.0, 2.0], 8)
    found = session.push(early, stream="news").rows()
    ps.archive(lake.path).append(_ticks([1.0, 4.0, 1.0], 6))
    found += session.push(late, stream="news").rows() + session.close().rows()
    assert found == [("X", 10, 7, 10)]
    assert found == query.run({"news": pl.concat([early, late])}, archives={"trades": lake}).rows()


@pytest.mark.parametrize("plan", ["eager", "live-first", "archive-first"])
def test_rows_that_are_removed_from_the_archive_count_no_more(lake: ps.Archive, plan: Any) -> None:
    session = _query().open(archives={"trades": lake}, plan=plan)
    session.push(_LIVE[:4])
    assert lake.retain(since=3) == 3
    found = session.push(_LIVE[4:]).rows() + session.close().rows()
    assert ("X", 8, 5, 8) in found
    assert ("X", 8, 1, 8) not in found


def test_a_session_goes_on_from_its_snapshot_whatever_the_plan(lake: ps.Archive) -> None:
    query = _query()
    for plan in ("eager", "live-first", "archive-first"):
        whole = query.open(archives={"trades": lake}, plan=plan)
        expected = whole.push(_LIVE).rows()
        session = query.open(archives={"trades": lake}, plan=plan)
        found = session.push(_LIVE[:2]).rows()
        session = query.open(session.snapshot(), archives={"trades": lake})
        found += session.push(_LIVE[2:]).rows()
        assert found == expected


def test_late_rows_are_dropped_or_refused_as_in_any_session(lake: ps.Archive) -> None:
    for plan in ("eager", "live-first", "archive-first"):
        session = _query().open(archives={"trades": lake}, plan=plan)
        session.push(_LIVE[:3])
        with pytest.raises(ps.LateEventError, match="symbol = 'X', ts = 2"):
            session.push(_ticks([9.0], 2))
        dropping = _query().open(archives={"trades": lake}, plan=plan, on_late="drop")
        found = dropping.push(_LIVE[:3]).rows()
        dropping.push(_ticks([9.0], 2))
        found += dropping.push(_LIVE[3:]).rows()
        whole = _query().open(archives={"trades": lake}, plan=plan)
        assert found == whole.push(_LIVE).rows()
        assert dropping.statistics.late == 1


def test_rows_out_of_order_wait_for_the_watermark(lake: ps.Archive) -> None:
    expected = _query().run({"trades": _LIVE}, archives={"trades": lake}).rows()
    for plan in ("eager", "live-first", "archive-first"):
        session = _query().open(archives={"trades": lake}, plan=plan, lateness=3)
        shuffled = _LIVE[[1, 0, 3, 2, 5, 4]]
        found = [row for tick in shuffled.iter_slices(1) for row in session.push(tick).rows()]
        assert found + session.close().rows() == expected


def test_times_of_another_unit_and_numbers_of_another_type_fit(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1)

    def timed(rows: pl.DataFrame) -> pl.DataFrame:
        times = [start + timedelta(seconds=t) for t in rows["ts"]]
        return rows.with_columns(ts=pl.Series(times).cast(pl.Datetime("us")))

    lake = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    lake.append(timed(_PAST).with_columns(pl.col("ts").cast(pl.Datetime("ms"))))
    query = _query(WITHIN_10="WITHIN 10 s", WITHIN_7="WITHIN 7 s")
    session = query.open(archives={"trades": lake}, plan="live-first")
    rows = timed(_LIVE).with_columns(pl.col("price").cast(pl.Int64))
    found = session.push(rows)
    plain = _query().open(archives={"trades": _plain(tmp_path)}, plan="live-first").push(_LIVE)
    assert len(found) == len(plain) > 0


def _plain(tmp_path: Path) -> ps.Archive:
    lake = ps.archive(tmp_path / "plain" / "trades", time="ts", key="symbol")
    lake.append(_PAST)
    return lake


def test_a_choice_says_what_each_plan_costs(lake: ps.Archive) -> None:
    few = _query().open(archives={"trades": lake})
    few.push(_LIVE)
    assert (
        few.plan
        == "live-first with cache: there are too few rows of it in the archive to reckon with"
    )
    prices = [100.0 - i % 50 // 2 for i in range(1000)]
    lake.append(_ticks(prices, -1000))
    session = _query().open(archives={"trades": lake})
    session.push(_LIVE)
    stream = session._stream
    assert isinstance(stream, LiveStream)
    assert stream.choice is not None
    costs = stream.choice.costs
    assert costs is not None
    # a fall with each second row: regions of 8 rows, which lie 2 apart
    assert 6 * 0.49 < costs.live_first - 3 < 8 * 0.51
    assert costs.live_first_cached == pytest.approx(4, abs=0.02)
    assert session.plan is not None
    assert session.plan.startswith("live-first with cache: it costs about 4.0")


def test_what_is_rare_in_the_archive_and_costly_live_is_looked_for_first(lake: ps.Archive) -> None:
    fall = (
        "trades MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B+) WITHIN 9 DEFINE B AS B.price < A.price)"
    )
    rise = _RISE.format(path="trades")
    query = ps.query(
        f"FROM {fall} AS fall WITH {rise} AS rise PARTITION BY symbol "
        "DEFINE f AS fall.n > 1, r AS rise.top > 0 PATTERN r before; meets; overlaps f WITHIN 7"
    )
    lake.append(_ticks([100.0 - i % 50 // 2 for i in range(1000)], -1000))
    session = query.open(archives={"trades": lake})
    session.push(_LIVE)
    assert session.plan is not None
    assert session.plan.startswith("archive-first")


def test_a_plan_is_chosen_again_when_there_is_more_to_choose_by(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    lake.append(_PAST)
    falls = _ticks([50.0 - i % 50 // 2 for i in range(600)], 4)
    session = _query().open(archives={"trades": lake}, plan=ps.LivePlan(cache=None))
    fixed = _query().open(archives={"trades": lake}, plan="eager")
    said = []
    for piece in falls.iter_slices(100):
        assert session.push(piece).rows() == fixed.push(piece).rows()
        ps.archive(lake.path).append(piece)
        said.append(str(session.plan))
    assert "too few rows" in said[0]
    assert "by the latest" in said[-1]


@pytest.mark.parametrize("plan", ["live-first", "archive-first"])
def test_a_choice_keeps_to_the_side_that_a_state_holds(lake: ps.Archive, plan: Any) -> None:
    fall = (
        "trades MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B+) WITHIN 9 DEFINE B AS B.price < A.price)"
    )
    query = ps.query(
        f"FROM {fall} AS fall WITH {_RISE.format(path='trades')} AS rise PARTITION BY symbol "
        "DEFINE f AS fall.n > 1, r AS rise.top > 0 PATTERN r before; meets; overlaps f WITHIN 7"
    )
    lake.append(_ticks([100.0 - i % 50 // 2 for i in range(1000)], -1000))
    rows = _ticks([3.0, 6.0, 5.0, 4.0, 3.0, 7.0, 6.0, 5.0, 4.0, 9.0, 1.0], 4)
    session = query.open(archives={"trades": lake}, plan=plan)
    session.push(rows[:6])
    again = query.open(session.snapshot(), archives={"trades": lake})
    assert again.push(rows[6:]).rows() == session.push(rows[6:]).rows() != []
    assert str(again.plan).startswith(plan)


@pytest.mark.parametrize("options", [{"archives": {"s": "lake"}}, {"plan": "eager"}])
def test_archives_and_plans_are_refused_where_nothing_reads_them(options: Any) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    for call in (query.open, lambda **given: query.run([{"t": 1, "x": 5}], **given)):
        with pytest.raises(TypeError, match="for a query that reads ARCHIVE streams"):
            call(**options)
    assert query.run([{"t": 1, "x": 5}], archives={}, plan="auto")


def test_an_archive_in_from_stands_in_quotes() -> None:
    rest = "ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
    with pytest.raises(ps.QueryError, match=r"stands in quotes[\s\S]*FROM ARCHIVE 'lake'"):
        ps.query(f"FROM ARCHIVE lake {rest}")
    assert ps.query(f"FROM archive AS lake {rest}").streams[0].name == "archive"


def test_a_missing_archive_is_named_with_the_stream_that_it_is_of() -> None:
    with pytest.raises(ps.ArchiveError, match=r"no archive nowhere/trades.*\n.*archives=.'trades'"):
        _query("nowhere/trades").open()
    with pytest.raises(ps.ArchiveError, match="reads no archive of a stream trade: did you mean"):
        _query().open(archives={"trade": "here"})


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        (
            "FROM trades WITH ARCHIVE 'lake' ORDER BY ts DEFINE f AS price > 1, r AS lake.price > 1 "
            "PATTERN r before f WITHIN 7",
            "the stream trades beside an archive stands in a query in brackets",
            "trades",
        ),
        (
            "FROM (FROM ARCHIVE 'lake' DEFINE u AS price > 1 PATTERN u WITHIN 7) AS rise "
            "DEFINE r AS rise.u_ts > 1 PATTERN r WITHIN 7",
            "this query reads no live stream",
            "(FROM ARCHIVE",
        ),
        (
            _TEXT.format(path="trades").replace(
                "PATTERN r before; meets; overlaps f\n    WITHIN 7",
                "PATTERN r during; starts f\n    WITHIN 7 OF f",
            ),
            "a symbol without a window may lie arbitrarily far back in an archive",
            None,
        ),
    ],
)
def test_what_cannot_be_decided_as_rows_come_is_refused(
    text: str, message: str, marked: str | None
) -> None:
    with pytest.raises(ps.QueryError) as error:
        ps.query(text).open()
    assert message in str(error.value)
    if marked is not None:
        assert "^" in str(error.value)


def test_a_query_over_an_archive_alone_finds_what_it_finds_without_the_word(
    lake: ps.Archive,
) -> None:
    text = "FROM {} ORDER BY ts PARTITION BY symbol DEFINE u AS price > 1.5 PATTERN u WITHIN 9"
    whole = ps.query(text.format(f"'{lake.path}'")).run()
    assert ps.query(text.format(f"ARCHIVE '{lake.path}'")).run().rows() == whole.rows()


def test_the_builder_says_the_same() -> None:
    falls = ps.define("down", "price < PREV(price)", stream=ps.stream("trades", order_by="ts"))
    fall = ps.stream(
        "fall", ps.pattern(falls).within(10).returning(falls.first("price").alias("top"))
    )
    past = ps.stream("trades", path="lake/trades", archive=True, order_by="ts")
    rises = ps.define("up", "price > PREV(price)", stream=past)
    rise = ps.stream(
        "rise", ps.pattern(rises).within(10).returning(rises.last("price").alias("top"))
    )
    f = ps.define("f", "top > 0", stream=fall)
    r = ps.define("r", "top > 0", stream=rise)
    built = ps.pattern(r.before(f)).partition_by("symbol").within(7).query
    assert "FROM ARCHIVE 'lake/trades'" in str(built)
    assert ps.query(str(built)) == built
    with pytest.raises(ps.QueryError, match="the stream trades needs path"):
        ps.stream("trades", archive=True)


def test_a_handle_that_others_have_left_behind_is_brought_up_to_date(lake: ps.Archive) -> None:
    for first in (-300, -600):
        lake.append(_ticks([float(i % 7) for i in range(200)], first))
    assert ps.archive(lake.path).compact() > 0
    session = _query().open(archives={"trades": lake})
    expected = _query().run({"trades": _LIVE}, archives={"trades": ps.archive(lake.path)}).rows()
    assert session.push(_LIVE).rows() + session.close().rows() == expected
    stale = ps.archive(lake.path.with_name("live"), time="ts")
    for tick in _LIVE.iter_slices(3):
        stale.append(tick)
    assert ps.archive(stale.path).compact() > 0
    assert _query().run({"trades": stale}, archives={"trades": lake}).rows() == expected


def test_files_that_others_replace_while_they_are_listed_are_listed_again(
    lake: ps.Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _query().run({"trades": _LIVE}, archives={"trades": lake}).rows()
    session = _query().open(archives={"trades": lake})
    found = session.push(_LIVE[:3]).rows()
    lake.append(_LIVE[:1])
    statistics = Store.statistics

    def compacting(store: Store, file: Any) -> pl.DataFrame:
        monkeypatch.setattr(Store, "statistics", statistics)
        assert ps.archive(lake.path).compact() > 0
        return store.statistics(file)

    monkeypatch.setattr(Store, "statistics", compacting)
    found += session.push(_LIVE[3:]).rows() + session.close().rows()
    assert Store.statistics is statistics
    assert found == expected


_PLANS = ("eager", "live-first", "archive-first")


@pytest.mark.parametrize("plan", _PLANS)
def test_an_archive_that_is_away_is_told_and_the_rows_can_come_again(
    lake: ps.Archive, plan: Any
) -> None:
    expected = _query().open(archives={"trades": lake}, plan=plan).push(_LIVE).rows()
    session = _query().open(archives={"trades": lake}, plan=plan)
    session.push(_LIVE[:3])
    away = lake.path.rename(lake.path.with_name("away"))
    with pytest.raises(ps.ArchiveError, match=r"a file of the archive .* is missing"):
        session.push(_LIVE[3:])
    away.rename(lake.path)
    assert session.push(_LIVE[3:]).rows() == expected


@pytest.mark.parametrize("plan", _PLANS)
def test_files_with_other_columns_or_types_are_refused(tmp_path: Path, plan: Any) -> None:
    def whole(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(pl.col("price").cast(pl.Int64))

    path = tmp_path / "trades" / "rows.parquet"
    path.parent.mkdir()
    for changed, message in (
        (_PAST.with_columns(price=pl.Series([1.5, 2.5, 5.5, 4.5])), "has type Float64 now"),
        (_PAST.rename({"price": "cost"}), "do not have the columns that the query was bound to"),
    ):
        whole(_PAST).write_parquet(path)
        session = _query(path.parent).open(plan=plan)
        session.push(whole(_LIVE[:1]))
        path.unlink()
        changed.write_parquet(path)
        with pytest.raises(ps.SchemaError, match=message):
            session.push(whole(_LIVE[1:]))


@pytest.mark.parametrize("plan", ["eager", "live-first"])
def test_files_that_are_overwritten_while_they_are_read_are_read_as_they_are_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Any
) -> None:
    path = tmp_path / "trades" / "rows.parquet"
    path.parent.mkdir()
    both = [
        pl.concat([rows, rows.with_columns(symbol=pl.lit("Y"))]).sort("ts")
        for rows in (_PAST, _LIVE)
    ]
    both[0].write_parquet(path)
    session = _query(path.parent).open(plan=plan)
    session.push(both[1].filter(pl.col("ts") < 6))
    read = Pages.read

    def overwriting(self: Pages, *arguments: Any) -> list[pl.DataFrame]:
        monkeypatch.setattr(Pages, "read", read)
        path.unlink()
        falling = pl.concat([_ticks([9.0, 8.0, 7.0, 6.0], symbol=s) for s in "XY"])
        falling.write_parquet(path)
        return read(self, *arguments)

    path.touch()
    monkeypatch.setattr(Pages, "read", overwriting)
    found = session.push(both[1].filter(pl.col("ts") >= 6)).rows()
    assert Pages.read is read
    assert sorted(found) == [("X", 8, 5, 8), ("Y", 8, 5, 8)]


def test_two_sessions_see_what_a_writer_appends_and_compacts_meanwhile(lake: ps.Archive) -> None:
    first, second = (
        _query().open(archives={"trades": ps.archive(lake.path)}, plan=plan)
        for plan in ("eager", "live-first")
    )
    found: list[list[Any]] = [[], []]
    for number, tick in enumerate(_LIVE.iter_slices(1)):
        found[0] += first.push(tick).rows()
        ps.archive(lake.path).append(tick)
        if number == 3:
            ps.archive(lake.path).compact()
        found[1] += second.push(tick).rows()
    expected = _query().open(archives={"trades": _plain(lake.path.parent)}).push(_LIVE).rows()
    assert found == [expected, expected]


@pytest.mark.parametrize("plan", _PLANS)
def test_a_live_query_in_brackets_may_read_several_streams(lake: ps.Archive, plan: Any) -> None:
    fall = (
        "(FROM trades ORDER BY ts WITH news ORDER BY ts DEFINE d AS trades.price < 3, e AS news.n > 0 "
        "PATTERN d intersects e WITHIN 10 RETURN COUNT(d) AS top)"
    )
    query = ps.query(
        _TEXT.replace(_FALL, fall).format(path="trades").replace("r.top >= f.top", "TRUE")
    )
    news = pl.DataFrame({"ts": range(4, 10), "symbol": ["X"] * 6, "n": [0, 0, 1, 1, 1, 0]})
    live = _ticks([3.0, 6.0, 6.0, 2.0, 2.0, 5.0], 4)
    session = query.open(archives={"trades": lake}, plan=plan)
    found = []
    for place in range(6):
        found += session.push(live[place : place + 1], stream="trades").rows()
        found += session.push(news[place : place + 1], stream="news").rows()
    found += session.close().rows()
    expected = query.run({"trades": live, "news": news}, archives={"trades": lake}).rows()
    assert found == expected != []


@pytest.mark.parametrize(
    "text",
    [
        "q AS SILENCE LONGER THAN 3 PATTERN q WITHIN 20 RETURN DURATION(q) AS top",
        "d AS price < 3, q AS SILENCE LONGER THAN 2 PATTERN d before; meets; overlaps; during q "
        "WITHIN 20 RETURN COUNT(d) AS top",
    ],
)
def test_a_live_query_in_brackets_may_look_for_silences(lake: ps.Archive, text: str) -> None:
    fall = f"(FROM trades ORDER BY ts DEFINE {text})"
    text = _TEXT.replace(_FALL, fall).replace("WITHIN 7", "WITHIN 40")
    query = ps.query(text.format(path="trades").replace("r.top >= f.top", "TRUE"))
    live = _ticks([3.0, 6.0, 6.0, 2.0, 2.0, 5.0, 1.0, 7.0], 4)
    live = live.with_columns(ts=pl.Series([4, 5, 9, 10, 11, 17, 18, 30]))
    live = pl.concat([live, live.with_columns(symbol=pl.lit("Y"), ts=pl.col("ts") + 2)]).sort("ts")
    expected = query.run({"trades": live}, archives={"trades": lake}, plan="eager").sort(pl.all())
    assert len(expected)
    assert query.run({"trades": live}, archives={"trades": lake}).sort(pl.all()).equals(expected)
    for plan in _PLANS:
        session = query.open(archives={"trades": lake}, plan=plan)
        found = [session.push(rows) for rows in live.partition_by("ts", maintain_order=True)]
        assert pl.concat([*found, session.close()]).sort(pl.all()).equals(expected), plan


_OF_ONE_TIME = """
    FROM (FROM s ORDER BY t, q DEFINE a AS x = 7 PATTERN a WITHIN 9
          RETURN COUNT(a) AS n) AS live
    WITH (FROM ARCHIVE '{}' AS s ORDER BY t, q DEFINE b AS x > 4 PATTERN b WITHIN 9
          RETURN COUNT(b) AS n) AS past
    DEFINE l AS live.n > 0, p AS past.n > 0 PATTERN l after; met-by; overlapped-by p WITHIN 9
    RETURN p.ts, p.te, p.n, l.ts
"""


@pytest.mark.parametrize("order", ["eager", "live-first", "archive-first"])
def test_rows_of_one_time_are_told_apart_by_a_column(tmp_path: Path, order: Any) -> None:
    schema = {"t": pl.Int64, "q": pl.Int64, "x": pl.Int64}

    def rows(*given: tuple[int, int, int]) -> pl.DataFrame:
        return pl.DataFrame(given, schema, orient="row")

    kept = ps.archive(tmp_path / "lake", time="t", key=[])
    # at 2 the run is over with the second of three rows, of which the archive has the first and the last
    kept.append(rows((1, 1, 0), (1, 2, 5), (1, 3, 6), (2, 1, 5), (2, 3, 0)))
    query = ps.query(_OF_ONE_TIME.format(kept.path))
    own = rows((2, 2, 0), (2, 3, 0), (3, 1, 0), (3, 2, 7), (4, 1, 0), (5, 1, 0))
    expected = query.run({"s": own})
    assert expected.select("p_ts", "p_te", "p_n", "l_ts").rows() == [(1, 2, 3, 3)]
    for size in (1, 2, 6):
        session = query.open(plan=ps.LivePlan(order))
        found = [session.push(part, stream="s") for part in own.iter_slices(size)]
        assert pl.concat([*found, session.close()]).equals(expected), size
    dropping = query.open(plan=ps.LivePlan(order), on_late="drop")
    given = [dropping.push(rows(one), stream="s") for one in own.rows()[:2]]
    dropping.push(rows((2, 2, 9)), stream="s")  # behind a later one of its time
    given += [dropping.push(rows(one), stream="s") for one in own.rows()[2:]]
    assert pl.concat([*given, dropping.close()]).equals(expected)
    assert dropping.statistics.late == 1


def test_row_beside_an_archive_is_refused_in_a_session_and_in_a_run(tmp_path: Path) -> None:
    kept = ps.archive(tmp_path / "lake", time="t", key=[])
    kept.append(pl.DataFrame({"t": [1, 1, 2], "x": [0, 5, 0], "q": [1, 2, 1]}))
    text = _OF_ONE_TIME.replace("t, q", "t, ROW")
    query = ps.query(text.format(kept.path))
    with pytest.raises(
        ps.QueryError, match=r"s and of its archive .* cannot be told apart with ROW"
    ):
        query.open()
    with pytest.raises(
        ps.QueryError, match=r"s and of its archive .* cannot be told apart with ROW"
    ):
        query.run({"s": pl.DataFrame({"t": [2, 2], "x": [7, 0]})})


@pytest.mark.parametrize("plan", ["live-first", "archive-first", "eager"])
def test_what_holds_until_something_may_have_begun_far_before(tmp_path: Path, plan: Any) -> None:
    ts = pl.int_range(220, eager=True).alias("ts")
    for begins, count in (([3, 170], 0), ([170], 1)):
        rows = pl.DataFrame(
            [ts, ts.is_in(begins).alias("go"), (ts == 190).alias("stop"), (ts - 200).alias("lag")]
        )
        path = tmp_path / str(count) / "trades"
        ps.archive(path, time="ts", page_rows=5, file_rows=20).append(rows[:200])
        query = ps.query(
            "FROM (FROM trades ORDER BY ts DEFINE x AS lag = 2 PATTERN x WITHIN 10) AS now "
            f"WITH (FROM ARCHIVE '{path}' ORDER BY ts DEFINE u AS go UNTIL stop PATTERN u WITHIN 30) "
            "AS past DEFINE f AS now, r AS past PATTERN r before f WITHIN 50"
        )
        session = query.open(plan=plan)
        found = session.push(rows[200:]).rows() + session.close().rows()
        assert found == query.run({"trades": rows[200:]}).rows()
        assert len(found) == count


def test_missing_rows_of_the_stream_are_asked_for_by_its_name(tmp_path: Path) -> None:
    ps.archive(tmp_path, time="ts").append([{"ts": 1, "x": 1}])
    query = ps.query(f"""
        FROM (FROM trades ORDER BY ts DEFINE a AS x > 1 PATTERN a WITHIN 60) AS fall
        WITH (FROM ARCHIVE '{tmp_path}' AS trades ORDER BY ts DEFINE b AS x > 1 PATTERN b WITHIN 60) AS rise
        DEFINE f AS fall, r AS rise PATTERN r before f WITHIN 60
    """)
    with pytest.raises(ps.QueryError, match=r'give them by its name: run\({"trades": rows}\)'):
        query.run()


@pytest.mark.parametrize("until", [12, 13, 14])
@pytest.mark.parametrize("plan", ["eager", "archive-first", "live-first"])
def test_what_time_makes_known_is_given_whichever_time_comes_next(
    tmp_path: Path, until: int, plan: str
) -> None:
    rows = pl.DataFrame(
        [("A", 1, 0), ("A", 8, 0), ("A", 9, 3), ("A", 10, 0), ("B", until, 0), ("B", 20, 0)],
        schema=["k", "t", "x"],
        orient="row",
    )
    ps.archive(tmp_path, time="t", key="k").append(rows[:1])
    query = ps.query(f"""
        FROM (FROM s ORDER BY t DEFINE z AS x > 1 PATTERN z WITHIN 9) AS u
        WITH (FROM ARCHIVE '{tmp_path}' AS s ORDER BY t
              DEFINE z AS x > 1 BRIDGING 2 PATTERN z WITHIN 9) AS w
        PARTITION BY k DEFINE a AS u, b AS w PATTERN b equals a WITHIN 20
    """)
    session = query.open(plan=plan if plan == "eager" else ps.LivePlan(plan))
    found = [session.push(rows[n : n + 1]) for n in range(1, len(rows))]
    assert pl.concat([*found, session.close()]).rows() == [("A", 12, 9, 10, 9, 10)]
