from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from piestream.demo.fleet import fleet, fleet_chunks

MPH = 0.44704


@pytest.fixture(scope="module")
def drive() -> pl.DataFrame:
    return fleet(cars=200, seconds=1800, seed=0)


@pytest.fixture(scope="module")
def aggressive_matches(runs, relation):
    """Brute force for the aggressive-driver query: the number of its matches in each car."""

    def validated(intervals, ts, at_least=0, at_most=None):
        """``(interval, valid from)`` of those that keep their duration constraint."""
        kept = []
        for start, end in intervals:
            reached = ts[(ts >= start + at_least) & (ts <= end)]
            if at_most is not None:
                if end != float("inf") and at_least <= end - start <= at_most:
                    kept.append(((start, end), end))
            elif reached.size:
                kept.append(((start, end), int(reached[0])))
        return kept

    def of_one_car(car: pl.DataFrame) -> int:
        ts = car["ts"].dt.epoch("s").to_numpy()
        speed, accel, lateral = (car[name].to_numpy() for name in ("speed", "accel", "lateral"))
        sprints = validated(runs(accel > 8, ts), ts, at_least=5)
        speeding = validated(runs(speed > 70, ts), ts, at_least=4, at_most=30)
        changes = runs((lateral > 0.5) | (lateral < -0.5), ts)
        brakes = runs(accel < -9, ts)
        matches = 0
        for a, a_valid in sprints:
            for s, s_valid in speeding:
                if relation(a, s) not in ("meets", "overlaps", "starts", "during"):
                    continue
                for c in changes:
                    if relation(s, c) not in ("contains", "overlaps", "finished-by"):
                        continue
                    for d in brakes:
                        c_to_d = relation(c, d)
                        if c_to_d not in ("overlaps", "meets", "before"):
                            continue
                        if relation(a, d) != "before":
                            continue
                        c_known = c[1] if c_to_d == "overlaps" else d[0]
                        known = max(a[1], a_valid, s_valid, c[0], c_known, d[0])
                        matches += known - min(a[0], s[0]) <= 300
        return matches

    def count(frame: pl.DataFrame) -> list[int]:
        return [of_one_car(car) for car in frame.partition_by("car_id", maintain_order=True)]

    return count


def test_aggressive_drivers_are_a_few_dozen_matches_of_a_few_cars(drive, aggressive_matches):
    counts = aggressive_matches(drive)
    assert 20 <= sum(counts) <= 90
    assert 5 <= sum(count > 0 for count in counts) <= 40
    assert max(counts) <= 15


def test_speed_is_the_integral_of_acceleration_and_position_that_of_speed(drive):
    steps = drive.with_columns(
        pl.col("ts", "speed", "position").shift(-1).over("car_id").name.prefix("next_")
    ).filter(pl.col("next_ts") - pl.col("ts") == timedelta(seconds=1))
    assert steps.height > 0.98 * drive.height
    off = steps.select(
        speed=(pl.col("next_speed") - pl.col("speed") - pl.col("accel") / MPH).abs().max(),
        position=(
            pl.col("next_position")
            - pl.col("position")
            - MPH * (pl.col("speed") + pl.col("next_speed")) / 2
        )
        .abs()
        .max(),
    ).row(0)
    assert max(off) < 1e-6


def test_rows_are_sorted_by_time_then_car_and_each_car_reports_once_a_second(drive):
    assert drive.select("ts", "car_id").equals(drive.select("ts", "car_id").sort("ts", "car_id"))
    assert not drive.select("ts", "car_id").is_duplicated().any()
    assert drive["ts"].dt.microsecond().max() == 0
    assert drive.schema == {
        "car_id": pl.Int32,
        "ts": pl.Datetime("us"),
        "speed": pl.Float64,
        "accel": pl.Float64,
        "lateral": pl.Float64,
        "lane": pl.Int8,
        "position": pl.Float64,
    }


def test_cars_enter_and_leave(drive):
    present = drive.group_by("ts").len()["len"]
    assert present.len() == 1800
    assert present.min() > 110
    assert present.max() < 180
    gaps = drive.select(gap=pl.col("ts").diff().over("car_id")).drop_nulls()["gap"]
    silences = gaps.filter(gaps > timedelta(seconds=1))
    assert silences.len() > 50
    assert silences.min() >= timedelta(seconds=120)
    assert silences.max() <= timedelta(seconds=901)
    assert drive.group_by("car_id").len()["len"].max() <= 1800


def test_most_drive_at_55_to_75_mph_and_within_what_cars_can_do(drive):
    speed = drive["speed"]
    assert speed.min() >= 0
    assert 60 < speed.median() < 70
    assert speed.is_between(50, 80).mean() > 0.8
    assert (drive["accel"].abs() > 5).mean() < 0.01
    assert drive["accel"].mean() == pytest.approx(0, abs=0.05)
    assert drive["lane"].unique().sort().to_list() == [1, 2, 3]


def test_neighbours_slow_down_together(drive):
    slow = drive.filter(pl.col("speed") < 30)
    assert 0.02 < slow.height / drive.height < 0.25
    # Stop-and-go waves: where one car crawls, nearly all cars of the same 100 m do.
    waves = slow.select("ts", place=pl.col("position") // 100).unique()
    there = drive.with_columns(place=pl.col("position") // 100).join(waves, on=["ts", "place"])
    crowded = there.filter(pl.len().over("ts", "place") > 1)
    assert crowded.height > 100
    assert (crowded["speed"] < 45).mean() > 0.8


def test_lateral_acceleration_takes_a_car_one_lane_over(drive):
    """Where the lane changes, there was a push to that side and there will be one back."""
    moves = drive.with_columns(
        change=pl.col("lane").cast(pl.Int64).diff().over("car_id"),
        push=pl.col("lateral").shift(1).over("car_id"),
        gap=pl.col("ts").diff().over("car_id"),
    ).filter((pl.col("change") != 0) & (pl.col("gap") == timedelta(seconds=1)))
    assert moves.height > 500
    assert set(moves["change"].unique()) == {-1, 1}
    assert (moves["push"] * moves["change"] > 0.1).all()
    assert (moves["lateral"] * moves["change"] < -0.1).all()


def test_only_a_minority_sprints(drive):
    sprinters = drive.filter(pl.col("accel") > 8)["car_id"].n_unique()
    assert 5 <= sprinters <= 40
    # near misses: too short a sprint, too long a speeding, a brake without a sprint
    assert drive.filter(pl.col("accel") < -9)["car_id"].n_unique() > sprinters


@pytest.mark.parametrize("chunk", [1, 7, 60, 1000])
def test_chunks_are_the_whole(chunk: int):
    whole = fleet(cars=50, seconds=200, seed=9)
    assert pl.concat(fleet_chunks(cars=50, seconds=200, seed=9, chunk=chunk)).equals(whole)


def test_longer_streams_begin_with_the_shorter(drive):
    short = fleet(cars=200, seconds=100, seed=0)
    assert drive.head(short.height).equals(short)


def test_one_seed_one_fleet():
    assert fleet(cars=30, seconds=300, seed=5).equals(fleet(cars=30, seconds=300, seed=5))
    assert not fleet(cars=30, seconds=300, seed=5).equals(fleet(cars=30, seconds=300, seed=6))


def test_fleet_is_the_published_one_bit_for_bit(drive):
    assert drive.height == 252_364
    assert (drive["speed"].max(), drive["accel"].min(), drive["lateral"].max()) == (
        145.3876261790372,
        -11.261541150930283,
        3.588621947512894,
    )


def test_start_moves_the_clock_only():
    usual, later = fleet(20, 50), fleet(20, 50, start=datetime(2030, 5, 1, 12))
    assert later["ts"].min() == datetime(2030, 5, 1, 12)
    assert later.drop("ts").equals(usual.drop("ts"))


def test_no_seconds_is_an_empty_frame_of_the_same_columns():
    assert fleet(cars=3, seconds=0).schema == fleet(cars=3, seconds=2).schema
    assert np.array_equal(fleet(cars=3, seconds=0).shape, (0, 7))


@pytest.mark.parametrize("wrong", [{"cars": 0}, {"seconds": -1}, {"chunk": 0}])
def test_wrong_arguments_are_refused_with_what_to_do(wrong: dict):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*; it must be at least"):
        fleet_chunks(**wrong)
