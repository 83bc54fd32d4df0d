"""The harness: measuring, results with their provenance, conclusions from numbers, the report."""

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
from experiments.harness import isolation, provenance, store, sweep
from experiments.harness.conclusions import agreement, ended, exponent, growth, ratio, standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import save, time_curves
from experiments.harness.isolation import isolated
from experiments.harness.measure import HARNESS, HARNESSES, Row, Rows, Size, timed
from experiments.harness.report import report
from experiments.harness.store import Document, best, document
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


# Results and the report


def _nothing(_: Size) -> Iterator[Row]:
    yield from ()


EXAMPLE = Experiment(
    "example",
    "An example",
    "What?",
    "How.",
    _nothing,
    lambda rows: f"table of {rows[0]['x']}",
    lambda rows: f"**Conclusion.** {rows[0]['x']}",
)
CATALOGUE = {"examples": {"example": EXAMPLE}}


def _written(folder: Path, size: Size, x: int, **head: object) -> Document:
    made = document(EXAMPLE, size, [{"x": x, "load": 0.5}], seconds=1.0)
    made = Document({**made.head, **head}, made.rows)
    store.write(made, folder)
    return made


def test_every_section_shows_commit_fingerprint_and_load(tmp_path: Path) -> None:
    made = _written(tmp_path, Size.FULL, 1, commit="abc123", load={"before": 3.25, "after": 7.75})
    page = report(CATALOGUE, tmp_path).read_text()
    assert f"Commit abc123, engine `{provenance.fingerprint()}`, load 0.5 to 7.8" in page
    assert made.head["engine"] == provenance.fingerprint()
    assert page.startswith("**Nothing here is stale:** 1 of 1 sections")
    assert "**Stale:**" not in page
    assert "**Conclusion.** 1" in page


def test_the_first_line_of_the_report_says_which_sections_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, Size.FULL, 1)
    monkeypatch.setattr(store, "fingerprint", lambda rooms: "0" * 12)
    page = report(CATALOGUE, tmp_path).read_text()
    first = page.splitlines()[0]
    assert first.startswith("**Stale:** 1 of 1 sections, until they are measured anew: example.")
    assert "> **Stale:** measured on other sources of the engine than the present ones." in page


def test_what_an_earlier_harness_measured_is_stale_and_says_what_was_otherwise(
    tmp_path: Path,
) -> None:
    _written(tmp_path, Size.FULL, 1, harness=None)
    page = report(CATALOGUE, tmp_path).read_text()
    assert page.startswith("**Stale:** 1 of 1")
    assert f"measured by harness 2 ({HARNESSES[2]})" in page
    _written(tmp_path, Size.FULL, 1, harness=None, protocol="")
    assert "measured by harness 1 (" in report(CATALOGUE, tmp_path).read_text()


def test_a_result_of_the_present_engine_goes_before_a_larger_stale_one(tmp_path: Path) -> None:
    _written(tmp_path, Size.FULL, 1, engine="0" * 12, commit="old")
    _written(tmp_path, Size.QUICK, 2)
    found, others = best(EXAMPLE, tmp_path)
    assert found is not None
    assert (found.size, found.faults(EXAMPLE), len(others)) == (Size.QUICK, [], 1)
    page = report(CATALOGUE, tmp_path).read_text()
    assert "**Conclusion.** 2" in page
    assert "Also kept: size full, commit old, stale, in `results/full/example.json`" in page
    _written(tmp_path, Size.FULL, 3)
    assert best(EXAMPLE, tmp_path)[0].size is Size.FULL  # type: ignore[union-attr]


def test_a_newer_harness_goes_before_size_and_before_the_present_engine(tmp_path: Path) -> None:
    _written(tmp_path, Size.FULL, 1, harness=HARNESS - 1)
    _written(tmp_path, Size.QUICK, 2, engine="0" * 12)
    found, _ = best(EXAMPLE, tmp_path)
    assert found is not None
    assert (found.size, found.harness) == (Size.QUICK, HARNESS)


def test_a_result_that_lacks_a_method_goes_behind_one_that_has_it(tmp_path: Path) -> None:
    both = dataclasses.replace(EXAMPLE, methods=(OURS, "iseq", "java"))
    for size, peers in ((Size.FULL, [OURS]), (Size.QUICK, [OURS, "iseq"])):
        rows: Rows = [{"x": 1, "peer": peer} for peer in peers]
        store.write(document(both, size, rows, seconds=1.0), tmp_path)
    found, (other,) = best(both, tmp_path)
    assert found is not None
    assert found.size is Size.QUICK
    assert found.faults(both) == []  # a program that need not be installed may be missing
    assert other.faults(both) == ["measured without ISEQ, begin punctuations"]


def test_the_fingerprint_is_of_the_rooms_that_the_section_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(*rooms: str) -> str:
        provenance.fingerprint.cache_clear()
        return provenance.fingerprint(rooms)

    package = tmp_path / "piestream"
    for name in ("joins/extend.py", "spark/state.py", "show/diagrams.py", "relations.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("x = 1\n")
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "_ROOT", tmp_path)
        patch.setattr(provenance, "_PACKAGE", package)
        own, with_spark = ("joins", "relations.py"), ("joins", "relations.py", "spark")
        before = fingerprint(*own), fingerprint(*with_spark)
        (package / "show/diagrams.py").write_text("x = 2\n")
        assert (fingerprint(*own), fingerprint(*with_spark)) == before
        (package / "spark/state.py").write_text("x = 2\n")
        assert fingerprint(*own) == before[0]
        assert fingerprint(*with_spark) != before[1]
        (package / "relations.py").write_text("x = 2\n")
        assert fingerprint(*own) != before[0]
        with pytest.raises(FileNotFoundError, match="the package has no cellar"):
            fingerprint("cellar")
    provenance.fingerprint.cache_clear()


def test_figures_of_the_same_rows_are_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    experiment = EXPERIMENTS["powersets"]
    rows = list(experiment.rows(Size.TINY))
    one, two = (save(experiment, rows, tmp_path / f"{name}.svg") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_time_out_is_marked_and_cold_runs_are_told_from_warm_ones() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    rows: Rows = [
        {"n": 4, "peer": "tpstream", "cpu_s": 0.5, "cold_cpu_s": 0.6},
        {"n": 8, "peer": "tpstream", "cold_cpu_s": 2.5},
        {"n": 12, "peer": "tpstream", "over": "3 s", "over_s": 3.0},
        {"n": 16, "peer": "tpstream", "skipped": "3 s"},
    ]
    axes = Figure().subplots()
    time_curves(axes, rows, "n")
    points = {tuple(zip(*line.get_data(), strict=True)) for line in axes.lines}
    assert ((4, 500.0),) in points  # warm
    assert ((8, 2500.0),) in points  # cold, a mark of its own
    assert ((12, 3000.0),) in points  # the limit
    assert {"cold run only", "ended at a limit"} <= set(axes.get_legend_handles_labels()[1])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "8", "12", "16"]


def test_without_matplotlib_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import builtins

    real: Callable[..., object] = builtins.__import__

    def refuse(name: str, *rest: object, **more: object) -> object:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"piestream\[plot\]"):
        save(EXPERIMENTS["gain"], [], tmp_path / "gain.svg")


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
