"""The harness: measuring, conclusions from numbers, the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments import __main__ as main_module
from experiments.__main__ import main
from experiments.catalogue import EXPERIMENTS, GROUPS
from experiments.harness import isolation, sweep
from experiments.harness.conclusions import agreement, ended, exponent, growth, ratio, standing
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size, timed
from experiments.harness.sweep import Sweep
from experiments.harness.tables import time_tables
from experiments.peers import BITS, FRAME, OURS
from experiments.peers.pattern import Pattern
from experiments.streams import of_bits, restless
from piestream.relations import Relation

# Times


def test_the_first_run_is_the_cold_one_and_the_others_are_warm() -> None:
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        time.sleep(0.05 if len(calls) == 1 else 0.001)
        return len(calls)

    row, result = timed(work, Size.QUICK)
    assert row["runs"] == len(calls) - 1 >= 2
    assert result == len(calls)
    assert row["cold_wall_s"] >= 0.05 > row["wall_median"] >= row["wall_s"]
    assert 0 <= row["cpu_s"] <= row["cpu_median"]


def test_work_that_takes_long_has_no_warm_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Size, "repeat_limit", property(lambda _: -1.0))
    row, _ = timed(list, Size.QUICK)
    assert row["runs"] == 0
    assert "cpu_s" not in row
    assert row["cold_cpu_s"] >= 0


def test_something_is_done_between_warm_runs_and_not_before_the_cold_one() -> None:
    order: list[str] = []
    timed(lambda: order.append("run"), Size.TINY, between=lambda: order.append("between"))
    assert order == ["run", "between", "run"]


def _endless() -> Callable[[], int]:
    return _turn


def _turn() -> int:
    at = 0
    while at >= 0:
        at += 1
    return at


def _touching() -> Callable[[], int]:
    return _touch


def _touch() -> int:
    """How often the system hands out pages, small or large ones, for an array of 40 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = np.ones(5 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before if held.any() else 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it if asked")
def test_only_the_cold_run_pays_for_its_pages() -> None:
    row = isolated(_touching, size=Size.QUICK, describe=_only)
    assert row["runs"] > 1
    assert row["result"] < _touch() / 3


def _waiting() -> Callable[[], object]:
    return partial(time.sleep, 60)


def _hoarding_elsewhere() -> Callable[[], object]:
    return _leave_it_to_another


def _leave_it_to_another() -> object:
    hoard = "held_elsewhere = bytearray(b'1' * (320 << 20)); import time; time.sleep(60)"
    return subprocess.run([sys.executable, "-c", hoard], check=False)


def _hoarding() -> Callable[[], object]:
    return _hoard


def _hoard() -> object:
    held = np.ones(40 << 20)
    time.sleep(5)
    return held


def _dying() -> Callable[[], None]:
    return _die


def _die() -> None:
    os._exit(3)


def _only(result: object) -> Row:
    return {"result": result}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only on Linux")
def test_a_method_is_ended_at_its_limits_and_takes_nothing_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of(prepare: Callable[..., Callable[[], object]], *given: object, **more: float) -> Row:
        row = isolated(prepare, *given, size=Size.QUICK, describe=_only, **more)  # type: ignore[arg-type]
        assert row.pop("load") >= 0
        return row

    monkeypatch.setattr(Size, "cpu_limit", property(lambda _: 0.3))
    assert of(_endless) == {"over": "0.3 s", "over_s": 0.3}
    assert of(_dying) == {"failed": "the process ended with 3"}
    row = of(partial, sum, [1, 2])
    assert row["result"] == 3
    assert row["peak_growth_bytes"] >= 0
    monkeypatch.setattr(Size, "cpu_limit", property(lambda _: 60.0))
    monkeypatch.setattr(isolation, "MEMORY_CAP", 300 << 20)
    assert of(_hoarding) == {"over": "0.292969 GB"}
    assert of(_hoarding_elsewhere) == {"over": "0.292969 GB"}
    until = time.monotonic() + 20  # it would sleep for a minute
    while any("held_elsewhere" in _command(process) for process in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert of(_waiting, wall_limit=1.5) == {"over": "1.5 s of wall-clock time"}


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def test_who_was_over_a_limit_is_not_run_on_what_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def over(_: object, case: object, peer: str, form: str, **__: object) -> Row:
        calls.append((peer, form))
        return {"over": "3 s", "over_s": 3.0} if peer == "iseq" else {"cold_cpu_s": 1.0}

    monkeypatch.setattr(sweep, "isolated", over)
    case = of_bits(Pattern(2, ((0, 1, Relation.MEETS),), 5), *restless(2, 20, 0))
    sweeping = Sweep(Size.QUICK)
    first = list(sweeping.compared(case, ("iseq", "tpstream"), n=4))
    second = list(sweeping.compared(case, ("iseq", "tpstream"), n=5))
    assert calls == [("iseq", BITS), *[("tpstream", BITS), ("tpstream", FRAME)] * 2]
    assert [row.get("skipped") for row in (*first, *second)] == [
        None, None, "3 s", None, "3 s", None, "3 s", None,
    ]  # fmt: skip
    assert first[1]["events_per_s"] == 20


# Conclusions


def _compared(ours: float, others: dict[str, float], form: str = BITS, n: int = 4) -> Rows:
    times = {OURS: ours, **others}
    return [{"n": n, "peer": peer, "input": form, "events": 10, "cpu_s": time, "cold_cpu_s": 2 * time}
            for peer, time in times.items()]  # fmt: skip


def test_who_wins_and_who_loses_follows_the_numbers() -> None:
    rows = _compared(1.0, {"tpstream": 3.0, "iseq": 2.0}) + _compared(1.0, {"iseq": 4.0}, n=8)
    won = standing(rows, ["n"])
    assert "piestream is the quickest in 2 of 2 cases; the next best takes 2×" in won
    assert "to 4× (ISEQ, begin punctuations at n = 8)" in won
    assert f"**Where piestream loses.** Input *{BITS}*: nowhere." in won
    lost = standing([{**row, "cpu_s": 10.0} if row["peer"] == OURS else row for row in rows], ["n"])
    assert "the quickest in 0 of 2 cases" in lost
    assert "to TPStream, corrected in 1 of 1 cases, by up to 3.3× (n = 4)" in lost
    assert "to ISEQ, begin punctuations in 2 of 2 cases, by up to 5× (n = 4)" in lost
    even = standing(_compared(1.0, {"iseq": 1.03}), ["n"])
    assert "the quickest in 0 of 1 cases; even with the best in 1" in even
    assert "nowhere" in even


def test_cold_times_are_compared_with_cold_ones_alone() -> None:
    mine = {"cpu_s": 1.0, "cold_cpu_s": 4.0}
    assert ratio({"cpu_s": 2.0, "cold_cpu_s": 40.0}, mine) == (2.0, True)
    assert ratio({"cold_cpu_s": 2.0}, mine) == (0.5, False)
    assert ratio({"cpu_s": 2.0}, {"cold_cpu_s": 4.0}) is None


def test_forms_of_the_input_are_not_compared_with_each_other() -> None:
    rows = _compared(1.0, {}) + _compared(9.0, {"iseq": 3.0}, FRAME)
    text = standing(rows, ["n"])
    assert f"Input *{FRAME}*: to ISEQ, begin punctuations in 1 of 1 cases, by up to 3×" in text
    assert f"Input *{BITS}*" not in text
    assert time_tables(rows, ["n"]).count("CPU milliseconds, warm / cold") == 2


def test_growth_fits_points_of_one_kind() -> None:
    rows = [{"n": n, "peer": OURS, "input": BITS, "cpu_s": n**2 / 1e3, "cold_cpu_s": 1.0}
            for n in (1, 2, 4)]  # fmt: skip
    rows += [{"n": 8, "peer": OURS, "input": BITS, "cold_cpu_s": 1e6}]
    assert growth(rows, "n") == f"*{BITS}*: piestream 2"
    cold = [{key: row[key] for key in row if key != "cpu_s"} for row in rows[:3]]
    assert growth(cold, "n") == f"*{BITS}*: piestream 0 (cold)"
    assert exponent([1, 10, 100], [0, 5, 500]) == 2.0
    assert exponent([1], [1]) is None


def test_methods_that_count_differently_are_named() -> None:
    rows: Rows = [{"n": 4, "peer": peer, "matches": count}
                  for peer, count in (("piestream", 7), ("tpstream", 7), ("iseq", 6))]  # fmt: skip
    assert "the same number of matches in every case" in agreement(rows, ["n"])
    last = {"n": 8, "peer": "tpstream", "over": "3 s"}  # the last case has no count of its own
    assert "None" not in agreement([*rows, last], ["n"])
    assert "in the last one that was counted 7 at the earliest instant" in agreement(
        [*rows, last], ["n"]
    )
    rows[1]["matches"] = 8
    assert "n = 4, at the earliest instant: [7, 8]" in agreement(rows, ["n"])


def test_tables_say_who_is_too_slow_and_who_cannot() -> None:
    rows: Rows = [
        {"n": 4, "peer": OURS, "input": BITS, "cpu_s": 2.0, "cold_cpu_s": 3.0},
        {"n": 4, "peer": "tpstream", "input": BITS, "cold_cpu_s": 1.0},
        {"n": 4, "peer": "iseq", "input": BITS, "refused": "no"},
        {"n": 4, "peer": "polars", "input": BITS, "skipped": "3 s"},
        {"n": 4, "peer": "duckdb", "input": BITS, "over": "6 GB"},
    ]
    shown = time_tables(rows, ["n"])
    assert shown.splitlines()[-1] == (
        "| 4 | 2,000 / 3,000 | – / 1,000 | cannot | (> 3 s) | > 6 GB |"
    )
    assert ended(rows, ["n"]) == (
        f" Ended at a limit: DuckDB, SQL joins ({BITS}) at n = 4 (> 6 GB)."
    )


# The command line


def test_the_command_writes_results_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["gain", "--tiny", "--no-figures", "--folder", str(tmp_path)])
    assert "relation of A to B" in capsys.readouterr().out
    kept = json.loads((tmp_path / "results" / "tiny" / "gain.json").read_text())
    assert {"commit", "engine", "load", "machine", "versions", "seed", "protocol"} <= kept.keys()
    page = (tmp_path / "report.md").read_text()
    assert EXPERIMENTS["gain"].title in page
    assert "Not measured yet: fig4a" in page


def test_a_group_stands_for_its_experiments() -> None:
    assert main_module._names(["spark", "gain", "spark_cores"]) == [*GROUPS["spark"], "gain"]
    assert main_module._names(["all"]) == list(EXPERIMENTS)
    assert main_module._names(["report"]) == []


def test_an_experiment_that_fails_leaves_the_others_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Size) -> Iterator[Row]:
        raise RuntimeError("broken")

    broken = dataclasses.replace(EXPERIMENTS["gain"], rows=fails)
    monkeypatch.setattr(main_module, "EXPERIMENTS", {**EXPERIMENTS, "gain": broken})
    wanted = ["gain", "powersets", "--tiny", "--no-figures", "--folder", str(tmp_path)]
    with pytest.raises(SystemExit, match="gain"):
        main(wanted)
    assert not (tmp_path / "results" / "tiny" / "gain.json").exists()
    assert (tmp_path / "results" / "tiny" / "powersets.json").exists()
    main(["powersets", *wanted[2:], "--resume"])
    assert "powersets: measured" in capsys.readouterr().out
