"""A query over an archive gives what it gives on the whole as a frame, however little is read."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import polars as pl
import pytest

import piestream as ps
from piestream.archives import cores, costs, planning, statistics, trials
from piestream.archives.bounded import is_bounded
from piestream.archives.planning import ArchivePlan
from piestream.archives.run import ArchiveRun
from piestream.archives.selection import TooFarError
from piestream.archives.source import source_of
from piestream.language.options import FileOptions
from piestream.language.parts import Aggregate
from tests.engines import difference, parse, plain
from tests.randoms import random_scenario, scenario, sequenced
from tests.scenario import Definition, Scenario
from tests.truth import column, until

#: Columns of numbers, of which RETURN gives values.
_VALUES = ("n0", "n1", "f0")
_FLAGS = ("b0", "b1", "b2", "b3", "b4", "b5")


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select however much is to be read, and in small batches: these archives are small."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    monkeypatch.setattr(planning, "LOOKED_AT", 0.5)
    monkeypatch.setattr(planning, "BATCH_ROWS", 30)
    monkeypatch.setattr(cores, "_LEAST_SHARE", 1)
    monkeypatch.setattr(costs, "_RUN", 0)
    monkeypatch.setattr(costs, "_RUN_BY_KEY", 0)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)


@pytest.fixture
def trials_of(monkeypatch: pytest.MonkeyPatch) -> Trials:
    """Lets some queries try a part of what they read, and counts what comes of it."""
    return Trials(monkeypatch)


class Trials:
    """What comes of trials: all was tried, or a part, or it was too much."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outcomes: Counter[str] = Counter()
        self.monkeypatch = monkeypatch
        #: How much may be tried of what is planned.
        self.share = 1.0
        original = trials._tried

        def tried(plan: ArchivePlan, *given: Any) -> Any:
            most = self.share * trials._planned(plan)
            monkeypatch.setattr(costs, "TRIED", most / costs.scan_cost(plan.pages))
            try:
                found = original(plan, *given)
            except TooFarError:
                self.outcomes["too far"] += 1
                raise
            self.outcomes["all" if isinstance(found, tuple) else "a part"] += 1
            return found

        monkeypatch.setattr(trials, "_tried", tried)

    def draw(self, seed: int) -> None:
        """Draw how much may be tried, and whether statistics may say that it need not be."""
        rng = Random(f"trial of {seed}")
        self.share = rng.choice([0.05, 0.9, 0.9, 10, 10, 10, 10, 10])
        given = is_bounded if rng.random() < 0.4 else lambda *_: False
        self.monkeypatch.setattr(planning, "is_bounded", given)


def _tiled(drawn: Scenario, rng: Random) -> list[dict[str, Any]]:
    """The events of a scenario again and again.

    In most repetitions there is nothing but time and keys, or always the same.
    """
    if not drawn.rows:
        return []
    times = [row["ts"] for row in drawn.rows]
    length = max(times) - min(times) + drawn.clock.beats(1)
    quiet = [name for name in drawn.schema if name not in (*drawn.keys, "ts", "seq")]
    rows: list[dict[str, Any]] = []
    offset = 0
    for _ in range(rng.randint(1, 8)):
        kind = rng.random()
        fixed = dict.fromkeys(quiet)
        if kind < 0.25:
            fixed = {name: rng.choice(drawn.rows)[name] for name in quiet}
        if rng.random() < 0.5:  # what RETURN reads is another in each row
            fixed = {name: value for name, value in fixed.items() if name not in _VALUES}
        dropped = rng.choice([0.0, 0.0, 0.3, 0.9])
        for row in drawn.rows:
            if rng.random() >= dropped:
                changed = fixed if kind < 0.7 else {}
                rows.append({**row, **changed, "ts": row["ts"] + offset})
        offset += length + drawn.clock.beats(rng.choice([0, 1, 5, 50, 500]))
    rows = rows or [dict(row) for row in drawn.rows]
    return rows if drawn.ties == "error" else _twice(rows, drawn, rng)


def _twice(rows: list[dict[str, Any]], drawn: Scenario, rng: Random) -> list[dict[str, Any]]:
    """With some rows behind which there is another one of the same partition and time."""
    found = []
    share = rng.choice([0.0, 0.1, 0.3])
    for row in rows:
        found.append(row)
        if rng.random() < share:
            same = (*drawn.keys, "ts", *["seq"][: "seq" in row])
            found.append({**rng.choice(rows), **{name: row[name] for name in same}})
    return found


def _drawn(seed: int, rng: Random) -> Scenario:
    """A scenario, of some of which only changes of predicates count."""
    drawn = scenario(seed)
    kind = seed // 2 % 5
    if kind == 3:
        others = map(scenario, range(seed, seed + 30_000, 30))
        return next(one for one in others if one.absences and _is_short(one))
    if kind == 4:
        return sequenced(seed)
    drawn = random_scenario(Random(seed), name=drawn.name)
    if kind == 2:
        starts = rng.sample(_FLAGS, len(drawn.definitions))
        return drawn.having(
            definitions=tuple(map(partial(_until, rng), drawn.definitions, starts)),
            max_gap=rng.choice([None, drawn.max_gap]), ties="error", where=None,
        )  # fmt: skip
    if rng.random() < 0.3:
        return drawn
    plain_ones = tuple(Definition(d.name, d.predicate) for d in drawn.definitions)
    drawn = drawn.having(definitions=plain_ones, max_gap=None)
    return drawn if rng.random() < 0.2 else drawn.having(returns=_extremes(drawn, rng), where=None)


def _until(rng: Random, drawn: Definition, start: str) -> Definition:
    """A symbol that begins with one flag, and goes on to another."""
    stop = rng.choice([flag for flag in _FLAGS if flag != start])
    return Definition(drawn.name, until(column(start), column(stop)))


def _is_short(drawn: Scenario) -> bool:
    """Whether not all of an archive may count for a match."""
    events = [one.at_least_events for one in drawn.definitions]
    return (drawn.within or 99) < 40 and not any(events) and len(drawn.rows) > 5


def _extremes(drawn: Scenario, rng: Random) -> tuple[Aggregate, ...]:
    """What RETURN may ask of intervals that statistics tell."""
    items = []
    for number in range(rng.choice([0, 1, 2, 3])):
        function, name = rng.choice(["MIN", "MAX", "FIRST"]), rng.choice(_VALUES)
        of = rng.choice(drawn.symbols)
        items.append(Aggregate(function, of, name, f"r{number}"))
    return tuple(items)


def _frame(drawn: Scenario, rows: list[dict[str, Any]]) -> pl.DataFrame:
    try:
        found = drawn.stream.frame(rows)
        str(found["ts"].to_list())  # not all that fits into 64 bits is a time
    except (pl.exceptions.PolarsError, OverflowError, ValueError):
        found = drawn.stream.frame()
    return found


def _archived(frame: pl.DataFrame, drawn: Scenario, rng: Random, folder: str) -> ps.Archive:
    """The rows as an archive of some kind, appended in pieces of which some are late."""
    if len(frame) and rng.random() < 0.25:
        size = rng.choice([3, 11, 1000])
        for number, first in enumerate(range(0, len(frame) or 1, size)):
            piece = frame[first : first + size]
            piece.write_parquet(
                Path(folder, f"{number:04d}.parquet"), row_group_size=rng.choice([2, 7])
            )
        return ps.archive(folder)
    key = list(drawn.keys) if rng.random() < 0.7 else []
    page = rng.choice([1, 2, 3, 5, 9, 40])
    lake = ps.archive(
        folder, time="ts", key=key, page_rows=page, file_rows=page * rng.choice([1, 3, 8])
    )
    size = rng.choice([7, 30, 1000])
    for first in range(0, len(frame) or 1, size):
        lake.append(frame[first : first + size])
    if rng.random() < 0.5:
        lake.compact()
    return lake


def test_the_rows_are_those_of_the_whole_as_a_frame(
    seeds_in_all: Callable[[int], list[int]], trials_of: Trials
) -> None:
    selected = less = undecoded = closed = absent = in_sequence = latched = 0
    for seed in seeds_in_all(44):
        rng = Random(f"archive {seed}")
        drawn = _drawn(seed, rng)
        frame = _frame(drawn, _tiled(drawn, rng))
        query = parse(drawn.text())
        trials_of.draw(seed)
        closes = rng.random() < 0.4
        at_end: Literal["open", "close"] = "close" if closes else "open"
        try:
            expected = query.run(frame, ties=drawn.ties, at_end=at_end)
        except ps.TieError:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lake = _archived(frame, drawn, rng, folder)
            where = f"seed {seed}: {lake}\n{drawn}"
            options = FileOptions(ties=drawn.ties, at_end=at_end)
            try:
                work = ArchiveRun(query, source_of(lake), options)
                selected += work.plan.cores is not None
                closed += work.plan.cores is not None and at_end == "close"
                found = query.run(lake, ties=drawn.ties, at_end=at_end)
                if work.plan.cores is not None:
                    list(work.results())
                    less += work.read_rows < len(frame)
                    absent += bool(drawn.absences) and work.read_rows < len(frame)
                    in_sequence += query.is_sequenced and work.read_rows < len(frame)
                    latched += bool(work.plan.reach and work.plan.reach.latches)
                    undecoded += bool(work.plan.decoder.is_quiet.any())
            except Exception as error:
                error.add_note(where)
                raise
        assert found.schema == expected.schema, where
        why = difference(plain(expected, drawn.stream), plain(found, drawn.stream), drawn.keys)
        if why is not None:
            pytest.fail(f"{where}\n{why}", pytrace=False)
    assert selected > 0
    assert less > 0
    assert undecoded > 0
    assert closed > 0
    assert absent > 0
    assert in_sequence > 0
    assert latched > 0
    assert trials_of.outcomes["all"]
    assert trials_of.outcomes["too far"]


def _calm(rng: Random) -> pl.DataFrame:
    """Rows of which a predicate seldom changes, and another one is seldom true."""
    cars = rng.choice([1, 2])
    n = rng.randint(20, 120)
    holds, rows = [False] * cars, []
    for ts in range(n):
        car = rng.randrange(cars)
        holds[car] ^= rng.random() < 0.08
        x, y = (rng.choice([None, rng.randint(-9, 9)]) for _ in range(2))
        rows.append((ts, car, holds[car], rng.random() < 0.08, x, y))
    types = {"ts": pl.Int64, "car": pl.Int64, "on": pl.Boolean, "hit": pl.Boolean}
    return pl.DataFrame(rows, {**types, "x": pl.Int16, "y": pl.Int64}, orient="row")


def _calm_query(rng: Random, keys: Sequence[str]) -> ps.Query:
    """A query whose symbols go on over many rows, with aggregates of them."""
    symbols = ["on AS on", "NOT on AS off", "hit AS hit"]
    made = [symbol.split(" AS ") for symbol in rng.sample(symbols, 2)]
    (a, _), (b, _) = ((name, predicate) for predicate, name in made)
    functions = rng.choices(["COUNT", "SUM", "AVG", "LAST", "MIN", "MAX", "FIRST"], k=3)
    values = [
        f"{f}({rng.choice([a, b])}.{rng.choice(['x', 'y', 'on'])}) AS r{n}"
        for n, f in enumerate(functions)
    ]
    values += [f"COUNT({a}) AS n"] * rng.randint(0, 1)
    where = rng.choice(["", f"WHERE COUNT({b}) > 2 AND SUM({a}.x) IS NOT NULL"])
    pattern = rng.choice(["intersects", "meets", "precedes", "during; contains; starts; finishes"])
    emit = rng.choice(["", "EMIT ON COMPLETION", "EMIT ON BOTH"])
    define = ", ".join(f"{name} AS {predicate}" for predicate, name in made)
    return ps.query(
        f"FROM s PARTITION BY {', '.join(keys)} ORDER BY ts DEFINE {define} PATTERN {a} {pattern} {b} "
        f"WITHIN {rng.choice([5, 20, 200])} {where} {emit} RETURN {', '.join(values)}"
    )


def test_what_statistics_tell_of_pages_is_what_their_rows_give(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    undecoded, seeds = 0, seeds_in_all(40)
    for seed in seeds:
        rng = Random(f"calm {seed}")
        rows, keys = _calm(rng), ["car"]
        if rng.random() < 0.4:
            lane = [rng.random() < 0.3 for _ in range(len(rows))]
            rows, keys = rows.with_columns(lane=pl.Series(lane)), ["car", "lane"]
        query = _calm_query(rng, keys)
        expected = query.run(rows)
        key = keys if rows["car"].n_unique() > 1 or rng.random() < 0.5 else None
        with tempfile.TemporaryDirectory() as folder:
            lake = ps.archive(
                folder,
                time="ts",
                key=key,
                page_rows=rng.randint(1, 6),
                file_rows=rng.randint(9, 60),
            )
            lake.append(rows)
            work = ArchiveRun(query, source_of(lake), FileOptions())
            found = pl.concat([query.run(rows[:0]), *work.results()])
        where = f"seed {seed}: {query}\n{rows.to_dicts()}"
        assert found.schema == expected.schema, where
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), where
        decoder = getattr(work.plan, "decoder", None)
        undecoded += decoder is not None and bool(decoder.is_quiet.any())
    assert undecoded > len(seeds) / 4


def _ending(rng: Random) -> pl.DataFrame:
    """Rows of partitions of which some end long before others."""
    cars, n = rng.choice([1, 2, 3]), rng.randint(20, 120)
    ends = [rng.choice([1.0, 1.0, rng.random()]) for _ in range(cars)]
    holds, rows, ts = [False] * cars, [(0, 0, False, False, False)], 0
    for i in range(n):
        car = rng.randrange(cars)
        if i / n <= ends[car]:
            ts += rng.choice([1, 1, 1, 2, 9])
            holds[car] ^= rng.random() < 0.15
            rows.append((ts, car, holds[car], rng.random() < 0.12, rng.random() < 0.12))
    types = {"ts": pl.Int64, "car": pl.Int64, "on": pl.Boolean, "hit": pl.Boolean}
    return pl.DataFrame(rows, {**types, "bad": pl.Boolean}, orient="row")


def _closing_query(rng: Random, keys: Sequence[str], says_not: bool, bridges: bool) -> ps.Query:
    """A query of which something is known at the end of a partition."""
    bridging = [
        f" BRIDGING {rng.choice([2, 6, 20])}" * bridges * rng.randint(0, 1) for _ in range(3)
    ]
    (a, x), (b, y) = rng.sample([("u", "on"), ("v", "NOT on"), ("w", "hit")], 2)
    define = f"{a} AS {x}{bridging[0]}, {b} AS {y}{bridging[1]}"
    relations = ["intersects", "meets", "precedes", "during; contains", "overlaps; before"]
    pattern = f"{a} {rng.choice(relations)} {b}"
    if says_not:
        of, length = rng.choice([a, b]), rng.choice([2, 6, 20])
        define += f", no AS {rng.choice(['bad', 'NOT hit'])}{bridging[2]}"
        absent = [
            f"no after {of} AND no.ts - {of}.te <= {length}",
            f"no before {of} AND {of}.ts - no.te <= {length}",
            f"no intersects {of}",
            f"{of} meets no",
            f"no.ts > {of}.ts AND no.ts - {of}.ts <= {length}",
        ]
        pattern += f" AND NOT ({rng.choice(absent)})"
    gap = rng.choice(["", "MAX GAP 3", "MAX GAP 8"])
    emit = rng.choice(["", "EMIT ON COMPLETION", "EMIT ON BOTH"])
    limits = [
        "",
        "",
        f"ONCE PER {a}",
        f"ONCE PER {b} LIMIT 2",
        "NO OVERLAP",
        "COOLDOWN 9",
        "LIMIT 3",
    ]
    return ps.query(
        f"FROM s PARTITION BY {', '.join(keys)} ORDER BY ts {gap} DEFINE {define} PATTERN {pattern} "
        f"WITHIN {rng.choice([4, 15, 40])} {emit} {rng.choice(limits)}"
    )


def test_what_is_open_is_closed_where_its_partition_ends(
    monkeypatch: pytest.MonkeyPatch, trials_of: Trials, seeds_in_all: Callable[[int], list[int]]
) -> None:
    seeds = seeds_in_all(120)
    less: Counter[tuple[str, bool, int]] = Counter()
    found_some = unlisted = left_open = 0
    for seed in seeds:
        rng = Random(f"ending {seed}")
        trials_of.draw(seed)
        rows, keys = _ending(rng), ["car"]
        at_end: Literal["open", "close"] = "close" if rng.random() < 0.75 else "open"
        if rng.random() < 0.4:
            lane = [rng.random() < 0.5 for _ in range(len(rows))]
            rows, keys = rows.with_columns(lane=pl.Series(lane)), rng.sample(["car", "lane"], 2)
        query = _closing_query(rng, keys, says_not=seed % 3 > 0, bridges=seed % 3 < 2)
        is_listed = rng.random() < 0.7
        monkeypatch.setattr(statistics, "_MOST_KEYS", 1024 if is_listed else 0)
        expected = query.run(rows, at_end=at_end)
        with tempfile.TemporaryDirectory() as folder:
            lake = ps.archive(
                folder, time="ts", key=rng.choice([None, "car", keys]), page_rows=rng.randint(1, 6),
                file_rows=rng.randint(9, 60),
            )  # fmt: skip
            lake.append(rows)
            work = ArchiveRun(query, source_of(lake), FileOptions(at_end=at_end))
            found = pl.concat([expected[:0], *work.results()])
        where = f"seed {seed}: {query}\n{rows.to_dicts()}"
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), where
        assert work.plan.cores is not None, where
        if work.read_rows < len(rows):
            less[query.emit.name, bool(query.limits), len(keys)] += at_end == "close"
            unlisted += at_end == "close" and not is_listed
            left_open += at_end == "open" and query.emit.name == "BOTH" and bool(query.limits)
        found_some += len(expected) > 0
    assert less.total() > len(seeds) / 8
    for place, values in enumerate([("TRIGGER", "BOTH"), (False, True), (1, 2)]):
        assert set(values) <= {kind[place] for kind in less}
    assert unlisted > 0
    assert left_open > 0
    assert set(trials_of.outcomes) == {"all", "a part", "too far"}
    assert found_some > len(seeds) / 8
