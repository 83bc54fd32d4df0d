from __future__ import annotations

import polars as pl
import pytest

from experiments.streams import rollover, rollover_truth

WINDOW = 10_000
DAYS = 12
ROLLOVERS = 18


@pytest.fixture(scope="module", params=[0, 1, 2])
def seed(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def find_matches(runs, relation):
    """All matches of the rollover query in a frame: a brute-force join around each surge."""

    def immediate(x, y, of_x, of_y):
        """x followed-by y: nothing of either symbol between the end of x and the start of y."""
        return relation(x, y) == "before" and not any(
            start < y[0] and end > x[1]
            for start, end in (*of_x, *of_y)
            if (start, end) not in (x, y)
        )

    def matches(frame: pl.DataFrame, precise: bool, window_to: str = "trigger"):
        ts = frame["ts"].to_numpy()
        bor, slope, density = (frame[name].to_numpy() for name in ("BOR", "SOBOR", "DD"))
        symbols = {
            "A": runs((slope > 0) & (bor < 50), ts),
            "B": runs(bor > 100, ts),
            "C": runs((slope < 0) & (bor < 50) & (bor > 0), ts),
            "D": runs(density < 1, ts),
        }

        def around(name, time):
            return [
                (start, end)
                for start, end in symbols[name]
                if start <= time + 2 * WINDOW and end >= time - 2 * WINDOW
            ]

        found = []
        for b in symbols["B"]:
            near = {name: around(name, b[0]) for name in "ABCD"}

            def comes_before(x, y, of_x, of_y):
                if precise:
                    return immediate(x, y, of_x, of_y)
                return relation(x, y) == "before"

            for a in near["A"]:
                if not comes_before(a, b, near["A"], near["B"]):
                    continue
                for c in near["C"]:
                    if not comes_before(b, c, near["B"], near["C"]):
                        continue
                    for d in near["D"]:
                        if (
                            relation(b, d) in ("during", "starts", "overlaps")
                            and relation(d, c) in ("overlaps", "finished-by", "contains")
                            and (
                                relation(a, d) in ("meets", "overlaps")
                                or comes_before(a, d, near["A"], near["D"])
                            )
                        ):
                            # C starts inside D, after A and B have ended: there all is decided.
                            known = c[0] if window_to == "trigger" else max(c[1], d[1])
                            if known - min(a[0], b[0], c[0], d[0]) <= WINDOW:
                                found.append((a, b, c, d))
        return found

    return matches


@pytest.fixture(scope="module")
def tank(seed: int) -> pl.DataFrame:
    return rollover(days=DAYS, seed=seed, rollovers=ROLLOVERS)


@pytest.mark.parametrize("window_to", ["trigger", "completion"])
def test_precise_query_finds_the_planted_rollovers_and_nothing_else(
    tank, seed, find_matches, window_to
):
    found = find_matches(tank, precise=True, window_to=window_to)
    truth = rollover_truth(days=DAYS, seed=seed, rollovers=ROLLOVERS)
    assert truth.height == ROLLOVERS == len(found)
    for (a, b, c, _), (onset, peak, settled) in zip(found, truth.iter_rows(), strict=True):
        assert onset <= a[0] < a[1] < b[0] <= peak < b[1] < c[0] < c[1] <= settled + 1


@pytest.mark.parametrize("window_to", ["trigger", "completion"])
def test_before_finds_four_to_five_times_as_many(tank, find_matches, window_to):
    precise = find_matches(tank, precise=True)
    loose = find_matches(tank, precise=False, window_to=window_to)
    assert set(precise) < set(loose)
    assert 4 <= len(loose) / len(precise) <= 5.5


def test_tank_also_shows_what_is_no_rollover(tank, runs):
    ts = tank["ts"].to_numpy()
    surges = runs(tank["BOR"].to_numpy() > 100, ts)
    mixings = runs(tank["DD"].to_numpy() < 1, ts)
    in_both = [b for b in surges if any(d[0] < b[1] and b[0] < d[1] for d in mixings)]
    assert len(surges) > len(in_both) > ROLLOVERS
    assert len(mixings) > len(in_both)


def test_levels_of_a_quiet_tank():
    tank = rollover(days=0.2, seed=1, rollovers=0)
    assert rollover_truth(days=0.2, seed=1, rollovers=0).height == 0
    quiet = tank.filter(pl.col("SOBOR") == 0)
    assert quiet.height > 0.5 * tank.height
    assert tank["BOR"].min() > 9.7
    assert tank["BOR"].median() < 11.3
    assert 4.9 <= tank["DD"].median() <= 5.1


def test_slope_is_that_of_boil_off_within_the_errors_of_the_instruments(tank):
    change = tank["BOR"].diff()[1:] - tank["SOBOR"][1:]
    # two readings' noise, a tenth of the slope, half a step of it
    assert (change.abs() <= 0.4 + 0.1 * tank["SOBOR"][1:].abs() / 0.9 + 0.003).all()


def test_one_seed_one_tank(tank, seed):
    assert rollover(days=DAYS, seed=seed, rollovers=ROLLOVERS).equals(tank)
    assert not rollover(days=DAYS, seed=seed + 100, rollovers=ROLLOVERS).equals(tank)


def test_tank_is_the_published_one_bit_for_bit():
    tank = rollover(days=1, seed=0, rollovers=2)
    assert tank.schema == {"ts": pl.Int64, "BOR": pl.Float64, "SOBOR": pl.Float64, "DD": pl.Float64}
    assert (tank["BOR"].max(), tank["SOBOR"].min(), tank["DD"].min()) == (
        190.4738013119535,
        -1.2200793350295767,
        0.30179725628090903,
    )
    assert rollover_truth(days=1, seed=0, rollovers=2).rows() == [
        (10849, 11068, 11389),
        (42004, 42204, 42426),
    ]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"days": 0}, "days is 0"),
        ({"rollovers": -1}, "rollovers is -1"),
        ({"days": 1, "rollovers": 95}, "at most 3 do, or take 27 days"),
    ],
)
def test_wrong_arguments_are_refused_with_what_to_do(wrong: dict, says: str):
    for generate in (rollover, rollover_truth):
        with pytest.raises(ValueError, match=says):
            generate(**wrong)
