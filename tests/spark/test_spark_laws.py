"""The laws on Spark: bounded and streaming frames say what the oracle says, row for row."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from tests import engines, folders
from tests.engines import Rows, difference, parse
from tests.mixed import mixed
from tests.randoms import scenario, sequenced
from tests.scenario import Scenario
from tests.spark.streams import Player, cut, frame_of, rows_of

#: How many cases of each kind for every 375 of the other laws; each takes Spark a second or so.
BOUNDED, STREAMED, OF = 16, 7, 375
#: From one case to the next the seeds are this far apart: the first that is worth it is taken.
_APART = 12


def _fits(drawn: Scenario) -> bool:
    """Spark's times are microseconds."""
    return drawn.clock.kind != "ns" and bool(drawn.rows)


def _worth(first: int) -> int:
    """The first seed from one on whose scenario is worth Spark's time."""
    seeds = (seed for seed in count(first) if _fits(scenario(seed)))
    return next(seed for seed in seeds if scenario(seed).expected() or seed % 7 == 0)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many cases as ``--laws`` asks for, in proportion, half of them of fresh seeds."""
    option = metafunc.config.option
    for name, first, many in (("bounded", 0, BOUNDED), ("streamed", 100_000, STREAMED)):
        if name in metafunc.fixturenames:
            half = max(1, many * option.laws // OF // 2)
            firsts = [first + at + _APART * n for at in (0, option.fresh) for n in range(half)]
            ids = [f"{source}{n}" for source in ("", "fresh ") for n in range(half)]
            metafunc.parametrize(name, firsts, ids=ids)


def _drawn(seed: int) -> Scenario:
    """The scenario of a seed; in some, events of one time are told apart, or much is mixed."""
    if seed % 4 == 3:
        return mixed(seed, on_spark=True)
    return sequenced(seed, on_spark=True) if seed % 4 == 1 else scenario(seed)


def _check(drawn: Scenario, found: Rows, plan: object, at_end: str = "open") -> None:
    expected = drawn.expected(at_end=at_end)
    if (why := difference(expected, found, drawn.keys)) is not None:
        pytest.fail(f"\n{drawn}\nplan = {plan}\n{why}\n", pytrace=False)


def test_a_bounded_frame_says_what_the_oracle_says(spark: Any, bounded: int) -> None:
    seed = _worth(bounded)
    drawn, rng = _drawn(seed), Random(seed)
    order = list(range(len(drawn.rows)))
    if drawn.ties == "error":
        rng.shuffle(order)
    frame = frame_of(spark, drawn.stream.frame([drawn.rows[place] for place in order]))
    if drawn.ties == "error":
        frame = frame.repartition(3)
    buckets = rng.choice((1, 3, 64))
    at_end = rng.choice(("open", "close"))
    query = parse(drawn.text())
    found = query.run(frame, ties=drawn.ties, buckets=buckets, at_end=at_end)
    plan = (order, buckets, at_end)
    _check(drawn, engines.plain(rows_of(found), drawn.stream), plan, at_end)


def test_a_stream_says_what_the_oracle_says(spark: Any, streamed: int, tmp_path: Path) -> None:
    seed = _worth(streamed)
    drawn, rng = _drawn(seed), Random(seed)
    lateness = rng.choice((0, 2, 5))
    order = engines.arrival(drawn.stream, lateness, rng)
    sizes = engines.cuts(len(order), rng)
    rows = [drawn.rows[place] for place in order]
    parts = [drawn.stream.frame(part) for part in cut(rows, sizes)]
    text = drawn.clock.text(lateness)
    options: dict[str, Any] = {
        "ties": drawn.ties,
        "lateness": text if drawn.clock.unit else int(text),
        "buckets": rng.choice((1, 3)),
        "partitioning": rng.choice(("bucket", "bucket", "key")),
    }
    schema = drawn.stream.frame([])
    player = Player(spark, parse(drawn.text()), schema, tmp_path, **options)
    stopped = rng.randint(0, len(parts))
    player.play(*parts[:stopped])  # and started again from its checkpoint
    player.play(*parts[stopped:])
    found = pl.concat([player.rows(), player.flushed()]) if player.batches else player.flushed()
    _check(drawn, engines.plain(found, drawn.stream), (order, sizes, stopped, options))
    assert player.counted("late") == player.dropped() == 0


_FOLDERS = sorted(path.parent for path in folders.CASES.glob("*/query.sql"))


def _folders(config: pytest.Config) -> list[Path]:
    """Every third case folder; all with ``--laws 1000`` and more."""
    every = config.option.laws >= 1_000
    return _FOLDERS if every else _FOLDERS[::3]


def test_the_case_folders_hold_on_bounded_frames(spark: Any, pytestconfig: pytest.Config) -> None:
    """In one test: each is a quick look, and its name is in the message."""
    held = 0
    for folder in _folders(pytestconfig):
        case = folders.read(folder)
        if case.stream.clock.kind == "ns":
            continue
        query = parse(case.text)
        frame = frame_of(spark, case.stream.frame())
        found = engines.plain(rows_of(query.run(frame, ties=case.stream.ties)), case.stream)
        cells = folders.table(found, query, case.stream)
        why = folders.differs(case.matches, cells, len(query.partition_by))
        assert why is None, f"{folder.name}\n{why}"
        held += 1
    assert held > 10
