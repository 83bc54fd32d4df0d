from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.streams import booleans, booleans_chunks


def lengths(column: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of gaps and of situations, without the last run, which the stream's end cuts off."""
    values = column.to_numpy().astype(np.int8)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))
    whole = np.diff(edges)
    assert values[0] == 0, "a column starts in a gap"
    return whole[0::2], whole[1::2]


def test_gaps_and_situations_stay_within_their_bounds_and_reach_them():
    frame = booleans(symbols=3, events=300_000, seed=11)
    for name in ("a1", "a2", "a3"):
        gaps, situations = lengths(frame[name])
        assert (gaps.min(), gaps.max()) == (10, 50)
        assert (situations.min(), situations.max()) == (10, 100)
        assert abs(gaps.mean() - 30) < 1
        assert abs(situations.mean() - 55) < 2
        assert np.bincount(situations)[10:].min() > 10, "every length occurs"


def test_time_is_one_event_a_second():
    frame = booleans(symbols=1, events=1_000)
    assert frame["ts"].to_list() == list(range(1_000))
    assert frame.schema == {"ts": pl.Int64, "a1": pl.Boolean}


def test_int8_says_the_same_as_bool():
    flags = booleans(symbols=2, events=5_000, seed=4)
    numbers = booleans(symbols=2, events=5_000, seed=4, kind="int8")
    assert numbers.schema["a2"] == pl.Int8
    assert numbers.with_columns(pl.col("a1", "a2").cast(pl.Boolean)).equals(flags)


def test_one_seed_one_stream():
    assert booleans(events=20_000, seed=5).equals(booleans(events=20_000, seed=5))
    assert not booleans(events=20_000, seed=5).equals(booleans(events=20_000, seed=6))


def test_stream_is_the_published_one_bit_for_bit():
    """Results of experiments are stored with their seeds: the streams must not change."""
    frame = booleans(symbols=2, events=100_000, seed=0)
    assert (frame["a1"].sum(), frame["a2"].sum()) == (65_053, 65_026)
    assert lengths(frame["a1"])[0][:4].tolist() == [48, 39, 27, 12]


def test_columns_are_independent_of_each_other_and_of_how_many_there_are():
    few, many = booleans(symbols=2, events=9_000), booleans(symbols=5, events=9_000)
    assert many.select(few.columns).equals(few)
    columns = many.drop("ts").cast(pl.Float64).to_numpy().T
    correlation = np.corrcoef(columns) - np.eye(5)
    assert np.abs(correlation).max() < 0.2


def test_more_events_begin_with_the_fewer():
    assert booleans(events=50_000).head(777).equals(booleans(events=777))


@pytest.mark.parametrize("chunk", [1, 997, 10_000, 10**6])
def test_chunks_are_the_whole(chunk: int):
    options = {"symbols": 3, "events": 5_000 if chunk == 1 else 400_000, "seed": 2}
    phases = ((0, (1, 1, 1)), (1_000, (1, 50, 50)), (150_000, (50, 1, 50)))
    whole = booleans(**options, phases=phases)
    assert pl.concat(booleans_chunks(**options, phases=phases, chunk=chunk)).equals(whole)


def test_ratios_say_how_often_a_symbol_occurs():
    frame = booleans(symbols=3, events=2_000_000, seed=3, ratios=(1, 50, 50))
    rare, often = lengths(frame["a1"]), lengths(frame["a2"])
    assert 40 < len(often[1]) / len(rare[1]) < 60
    assert rare[0].min() >= 500
    assert rare[0].max() <= 2_500
    assert rare[1].min() >= 500
    assert rare[1].max() <= 5_000
    assert often[1].max() == 100


def test_phases_change_the_ratios_on_the_way():
    turn = 500_000
    frame = booleans(symbols=2, events=2 * turn, seed=3, phases=((0, (1, 1)), (turn, (1, 50))))
    early, late = frame["a1"][:turn], frame["a1"][turn + 5_000 :]
    assert lengths(early)[1].max() == 100
    edges = np.flatnonzero(np.diff(late.to_numpy().astype(np.int8)))
    assert np.diff(edges).min() >= 500
    unchanged = booleans(symbols=2, events=2 * turn, seed=3)
    assert frame["a2"].equals(unchanged["a2"])
    assert early.equals(unchanged["a1"][:turn])


def test_a_run_belongs_to_the_phase_in_which_it_begins():
    fixed = {"symbols": 1, "events": 200, "situation": (4, 4), "gap": (6, 6)}
    two = {"symbols": 2, "events": 200, "situation": (4, 4), "gap": (6, 6)}
    plain = booleans(**fixed)["a1"].to_numpy()
    turned = booleans(**two, phases=((0, (1, 1)), (17, (1, 10))))["a1"].to_numpy()
    assert (turned[:20] == plain[:20]).all()  # the situation from 16 on keeps its 4 seconds
    assert not turned[20:80].any()
    assert turned[80:120].all()
    assert not turned[120:180].any()


def test_each_symbol_may_have_its_own_bounds():
    frame = booleans(symbols=2, events=50_000, situation=((55, 55), (20, 35)))
    assert set(lengths(frame["a1"])[1]) == {55}
    assert set(lengths(frame["a2"])[1]) == set(range(20, 36))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"symbols": 0}, "symbols is 0"),
        ({"events": -1}, "events is -1"),
        ({"gap": (0, 5)}, "gap is"),
        ({"situation": (9, 5)}, "situation is"),
        ({"situation": ((1, 2), (3, 4))}, "2 pairs of bounds"),
        ({"kind": "float"}, "kind is 'float'"),
        ({"ratios": (1, 2)}, "4 positive numbers"),
        ({"ratios": (1, 2, 3, 0)}, "positive"),
        ({"phases": ((5, (1, 1, 1, 1)),)}, "must begin at 0"),
        ({"phases": ((0, (1, 1, 1, 1)),), "ratios": (1, 1, 1, 1)}, "not both"),
    ],
)
def test_wrong_arguments_are_refused_with_what_to_do(wrong: dict, says: str):
    with pytest.raises(ValueError, match=says):
        booleans(**wrong)
    with pytest.raises(ValueError, match=says):
        booleans_chunks(**wrong)


def test_no_events_is_an_empty_frame_of_the_same_columns():
    assert booleans(symbols=2, events=0).schema == booleans(symbols=2, events=5).schema
