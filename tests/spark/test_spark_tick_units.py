"""``UNIT 20 ms`` on Spark: ticks of any length say what they say on one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import piestream as ps
from tests.spark.streams import Player, frame_of, rows_of
from tests.test_tick_units import TEXT, _rows


@pytest.mark.parametrize("unit", ["20 ms", "250 ns", "500 us"])
def test_ticks_of_a_length_give_what_one_machine_gives(
    spark: Any, tmp_path: Path, unit: str
) -> None:
    text = TEXT.format(unit="UNIT 20 ms")
    for length in ("200 ms", "60 ms", "400 ms", "40 ms"):
        ticks = int(length.split()[0]) // 20
        number, name = unit.split()
        text = text.replace(f" {length}", f" {ticks * int(number)} {name}")
    text = text.replace("WITHIN 2 s", f"WITHIN {100 * int(unit.split()[0])} {unit.split()[1]}")
    query = ps.query(text.replace("UNIT 20 ms", f"UNIT {unit}"))
    rows = _rows(3)
    expected = sorted(query.run(rows).rows())
    assert expected
    assert sorted(rows_of(query.run(frame_of(spark, rows))).rows()) == expected
    player = Player(spark, query, rows[:0], tmp_path)
    player.play(rows[:150], rows[150:300], rows[300:])
    found = [*player.rows().rows(), *player.flushed().rows()]
    assert sorted(found) == expected
