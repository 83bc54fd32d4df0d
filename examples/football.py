"""Passes and pressures of three football matches: ``python -m examples.football``.

The data is StatsBomb's open data, in the event files that kloppy ships with its tests.
"""

from __future__ import annotations

import json

import polars as pl

import piestream as ps
from examples.sources import file_of

MATCHES = ("statsbomb_15986_event", "statsbomb_3788741_event", "statsbomb_event")

QUERY = """\
FROM passes FROM ts TO te UNIT ms
WITH pressures FROM ts TO te UNIT ms
PARTITION BY match, period
DEFINE pass AS passes,
       press AS pressures
PATTERN pass intersects press
WITHIN 1 min
EMIT ON COMPLETION
WHERE pass.team <> press.team
RETURN pass.id, pass.complete, RELATION(pass, press) AS how
"""


def _milliseconds(clock: str) -> int:
    hours, minutes, seconds = clock.split(":")
    return round((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)


def events() -> pl.DataFrame:
    """Whatever took time in the three matches, an interval a row."""
    rows = []
    for number, match in enumerate(MATCHES, 1):
        path = file_of("kloppy", f"tests/files/{match}.json")
        for event in json.loads(path.read_text("utf-8")):
            lasted = round(event.get("duration", 0) * 1000)
            if lasted > 0:
                start = _milliseconds(event["timestamp"])
                rows.append(
                    {
                        "match": number,
                        "period": event["period"],
                        "id": event["id"],
                        "kind": event["type"]["name"],
                        "team": event["team"]["name"],
                        "player": event["player"]["name"],
                        # a pass without an outcome has reached its receiver
                        "complete": "outcome" not in event.get("pass", {}),
                        "ts": start,
                        "te": start + lasted,
                    }
                )
    return pl.DataFrame(rows)


def streams() -> dict[str, pl.DataFrame]:
    """The passes and the pressures."""
    found = events()
    return {
        "passes": found.filter(kind="Pass"),
        "pressures": found.filter(kind="Pressure").drop("complete"),
    }


def _arrived(passes: pl.DataFrame) -> str:
    return f"{len(passes):,} passes, {passes['complete'].cast(pl.Float64).sum() / len(passes):.0%} arrive"


def main() -> None:
    """Print which share of passes arrives, by their relation to a pressure."""
    played = streams()
    found = ps.query(QUERY).run(played)
    early = found.filter(pl.col("how").is_in(["overlapped-by", "during", "finishes"]))["pass_id"]
    passes = played["passes"].with_columns(
        when=pl.when(pl.col("id").is_in(early.implode()))
        .then(pl.lit("played under pressure"))
        .when(pl.col("id").is_in(found["pass_id"].implode()))
        .then(pl.lit("pressure begins while the ball is on its way"))
        .otherwise(pl.lit("no pressure"))
    )
    counts = found["how"].value_counts().sort("count", descending=True).rows()
    print("pass to pressure:", ", ".join(f"{relation} {count}" for relation, count in counts))
    for (when,), group in passes.group_by("when", maintain_order=True):
        print(f"{when}: {_arrived(group)}")


if __name__ == "__main__":
    main()
