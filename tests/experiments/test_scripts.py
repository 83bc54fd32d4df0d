"""Every experiment runs at a tiny size, draws, tells, and shows what it claims to show."""

from __future__ import annotations

import dataclasses
import doctest
import json
import os
import pkgutil
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import experiments
from experiments import __main__ as main_module
from experiments import cells, plans, results, spark
from experiments.__main__ import main
from experiments.baselines import run, sorted_matches
from experiments.baselines.pattern import Pattern
from experiments.catalogue import EXPERIMENTS
from experiments.cells import Sweep, apart
from experiments.experiment import exponent, lost_text, pivot, select
from experiments.futures import earliest, restless
from experiments.measure import Row, Rows, Size, timed
from experiments.peers import DETECTOR, ENGINE, Case, query_of
from experiments.powersets import _base
from experiments.streams import one_after_another
from piestream.relations import Relation
from tests.experiments import brute

SCRIPTS = [f"experiments.{module.name}" for module in pkgutil.iter_modules(experiments.__path__)]


@cache
def tiny(name: str) -> Rows:
    """The rows of an experiment, as they come back from their file."""
    rows: Rows = json.loads(json.dumps(list(EXPERIMENTS[name].rows(Size.TINY))))
    return rows


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_measures_tells_and_draws(name: str, tmp_path: Path) -> None:
    experiment, rows = EXPERIMENTS[name], tiny(name)
    assert len(rows) > 2
    assert all(row["seed"] == 0 for row in rows if not row.keys() & {"skipped", "refused"})
    results.write(results.document(experiment, Size.TINY, rows), tmp_path)
    told = results.load(name, tmp_path)
    assert told is not None
    assert len(told["rows"]) == len(rows)
    assert {"date", "machine", "versions", "seed", "timing"} <= told.keys()
    assert experiment.tables(rows).count("\n|") > 2
    meaning = experiment.meaning(rows)
    assert "**What it means.**" in meaning
    assert "**Where we lose.**" in meaning
    pytest.importorskip("matplotlib")
    for path in results.draw(experiment, rows, tmp_path):
        assert path.stat().st_size > 1_000
    page = results.report([experiment], tmp_path).read_text()
    assert experiment.title in page
    assert f"figures/{name}.svg" in page


def test_figures_of_the_same_rows_are_the_same_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for folder in ("one", "two"):
        results.draw(EXPERIMENTS["powersets"], tiny("powersets"), tmp_path / folder)
    one, two = (tmp_path / folder / "figures" / "powersets.svg" for folder in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_examples_are_right(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_the_command_writes_results_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["gain", "--tiny", "--no-figures", "--folder", str(tmp_path)])
    assert "relation of A to B" in capsys.readouterr().out
    assert (tmp_path / "results" / "gain.json").exists()
    page = (tmp_path / "report.md").read_text()
    assert EXPERIMENTS["gain"].title in page
    assert "Not run yet: fig4a" in page


def test_results_that_are_kept_fit_the_scripts_that_made_them() -> None:
    kept = [name for name in EXPERIMENTS if results.load(name) is not None]
    assert kept == list(EXPERIMENTS)
    page = (results.FOLDER / "report.md").read_text()
    for name in kept:
        document = results.load(name)
        assert document is not None
        assert document["size"] in ("quick", "full")
        assert EXPERIMENTS[name].tables(document["rows"]) in page


# What the experiments claim


def test_brute_force_over_futures_is_that_of_the_baselines_tests() -> None:
    seen = 0
    for seed in range(160):
        rng = Random(seed)
        given = brute.pattern(rng, rng.choice((2, 3)), precise=True)
        times, masks = restless(given.n_symbols, 25, seed)
        expected = {tuple(starts): report for report, *starts in brute.matches(given, times, masks)}
        assert earliest(given, times, masks) == expected, seed
        seen += len(expected)
    assert seen > 100


def test_piestream_is_at_the_optimum_everywhere() -> None:
    mine = select(tiny("earliness"), peer=ENGINE)
    assert sum(row["possible"] for row in mine) > 300
    for row in mine:
        faults = ("missing", "false", "repeated", "late", "early", "delay_most")
        assert not any(row[fault] for fault in faults), row


@pytest.mark.parametrize("peer", ["tpstream", "tpstream-published", "piestream-paper", "iseq"])
def test_peers_are_exact_and_never_early(peer: str) -> None:
    told = [row for row in select(tiny("earliness"), peer=peer) if "refused" not in row]
    assert told
    for row in told:
        assert not row["missing"] + row["false"] + row["repeated"] + row["early"], row


def test_sets_are_where_single_relations_are_late() -> None:
    group = "{overlaps, finished-by, contains}"
    for peer, late in (("tpstream", False), ("tpstream-published", True), ("iseq", True)):
        (row,) = select(tiny("earliness"), peer=peer, relations=group)
        assert bool(row["late"]) == late


def test_correctness_counts_faults_where_there_are_some() -> None:
    counts = {row["reading"]: row for row in EXPERIMENTS["correctness"].rows(Size.TINY)}
    exact = counts["piestream"]
    assert exact["true"] > 10
    assert not exact["missing"] + exact["false"] + exact["repeated"] + exact["late"]
    letter = counts["TPStream, to the letter"]
    assert letter["missing"] + letter["false"] > 0
    assert counts["ISEQ with punctuations"]["late"] > 0


def test_the_precise_relation_has_no_false_alarms() -> None:
    rows = tiny("rollover")
    for peer in (ENGINE, "piestream-paper", "duckdb"):
        (precise,) = select(rows, then="followed-by", peer=peer)
        (wide,) = select(rows, then="before", peer=peer)
        assert precise["false"] == 0 < wide["false"]
        assert precise["found"] == wide["found"] == precise["planted"]
    (refused,) = select(rows, then="followed-by", peer="tpstream")
    assert "thirteen" in refused["refused"]


@pytest.mark.parametrize("name", ["fig4a", "disconnected", "patterns", "complexity"])
def test_methods_that_report_at_triggers_count_alike(name: str) -> None:
    rows = [row for row in tiny(name) if row["peer"] in (ENGINE, DETECTOR, "tpstream")]
    keys = [
        key for key in rows[0] if key in ("n", "window", "pattern", "kind", "draw", "x", "sweep")
    ]
    counts: dict[tuple[object, ...], set[int]] = {}
    for row in rows:
        counts.setdefault(tuple(row.get(key) for key in keys), set()).add(row["matches"])
    assert len(counts) > 1
    assert all(len(found) == 1 for found in counts.values())
    if name != "patterns":  # of relations that are rare
        assert any(found != {0} for found in counts.values())


def test_plans_and_their_adaption_change_no_count() -> None:
    for query in {row["query"] for row in tiny("plans")}:
        assert len({row["matches"] for row in select(tiny("plans"), query=query)}) == 1
    adapting, first, ours = tiny("adaption")[:3]
    assert adapting["matches"] == first["matches"] == ours["matches"] > 0


def test_drivers_are_the_same_in_one_stream_and_in_partitions() -> None:
    for variant in ("full", "simplified"):
        here = select(tiny("drivers"), variant=variant)
        counts = {row["peer"]: row["matches"] for row in here}
        assert counts[ENGINE] == counts[DETECTOR] == counts["tpstream"]


def test_subsets_grow_with_the_share_that_is_open() -> None:
    rows = list(EXPERIMENTS["powersets"].rows(Size.TINY))
    wide = [row for row in rows if row["open"] > 0.8]
    rare = [row for row in rows if row["open"] < 0.5]
    assert wide[-1]["subsets_an_interval"] > 3 * wide[0]["subsets_an_interval"] > 0
    assert rare[-1]["subsets_an_interval"] < wide[-1]["subsets_an_interval"]
    exact = [{"n": n, "subsets": 1, "subsets_an_interval": 1.5**n} for n in (6, 8, 10)]
    assert _base(exact) == pytest.approx(1.5)


# The machinery


def test_the_engine_has_the_matches_of_its_peers_in_one_piece_and_in_many() -> None:
    pattern = Pattern(
        3,
        ((0, 1, Relation.OVERLAPS | Relation.DURING), (1, 2, Relation.BEFORE)),
        200,
        at_least=(2, 0, 0),
        at_most=(None, 30, None),
    )
    case = Case(pattern, *restless(3, 500, seed=2))
    expected = sorted_matches(run("tpstream", pattern, case.times, case.masks).matches)
    assert len(expected) > 20
    pieces = case.shaped(case.detect(pieces=7).matches)
    for found in (case.matches(ENGINE), case.matches(DETECTOR), pieces):
        assert np.array_equal(sorted_matches(found), expected)
    held = case.detect(pieces=7).counters
    assert held["peak_intervals"] > 0 < held["peak_bytes"]
    assert held["steps"] > 0
    assert str(query_of(pattern).symbols[1].at_most) == "30"


def test_no_match_spans_two_partitions_that_were_put_into_one_stream() -> None:
    # a ends in the first partition, b begins in the second: before, were it one stream.
    keys, times = np.array([1, 1, 2, 2]), np.array([0, 5, 0, 5])
    masks = np.array([1, 0, 2, 0])
    pattern = Pattern(2, ((0, 1, Relation.BEFORE),), 5)
    assert run("tpstream", pattern, *one_after_another(keys, times, masks, 5)).count == 0
    both = np.array([1, 2, 1, 2])
    joined = Pattern(2, ((0, 1, Relation.MEETS),), 5)
    assert run("tpstream", joined, *one_after_another(keys, times, both, 5)).count == 2


def test_an_interval_that_is_open_at_the_end_of_its_partition_adds_nothing() -> None:
    keys, times, masks = np.array([1, 1]), np.array([0, 5]), np.array([1, 3])
    pattern = Pattern(2, ((0, 1, Relation.FINISHED_BY),), 5)
    assert run("tpstream", pattern, *one_after_another(keys, times, masks, 5)).count == 0


def test_a_row_says_who_is_too_slow_who_cannot_and_who_wins() -> None:
    rows: Rows = [
        {"n": 4, "peer": ENGINE, "cpu_s": 2.0},
        {"n": 4, "peer": "tpstream", "cpu_s": 1.0},
        {"n": 4, "peer": "iseq", "refused": "no"},
        {"n": 4, "peer": "polars", "skipped": "3 s"},
        {"n": 4, "peer": "duckdb", "over": "6 GB"},
    ]
    shown = pivot(rows, ["n"])
    assert shown.splitlines()[-1] == "| 4 | 2,000 | 1,000 | cannot | (> 3 s) | > 6 GB |"
    told = lost_text(rows, ["n"], "Because.")
    assert "TPStream, corrected in 1 of 1 cases, by 2.0×" in told
    assert told.endswith("Because.")
    rows[1]["cpu_s"] = 3.0
    assert "In none" in lost_text(rows, ["n"], "Because.")
    assert "Because" not in lost_text(rows, ["n"], "Because.")


def test_work_is_timed_more_than_once_and_warm() -> None:
    calls: list[int] = []

    def work() -> int:
        calls.append(1)
        return len(calls)

    row, result = timed(work, Size.QUICK)
    assert row["runs"] == len(calls) - 1 >= 2
    assert result == len(calls)
    assert 0 <= row["cpu_s"] <= row["cpu_median"]


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
def test_only_the_first_runs_pay_for_their_pages() -> None:
    row = apart(_touching, size=Size.QUICK, told=_only)
    assert row["runs"] > 1
    assert row["result"] < _touch() / 3


def _kept() -> Callable[[], int]:
    spark.kept_to(1)
    return _cores


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux can")
def test_a_spark_of_one_core_has_one_for_its_workers_too() -> None:
    assert apart(_kept, size=Size.QUICK, told=_only)["result"] == 1


def test_a_spark_that_hangs_is_ended_and_shown_as_such() -> None:
    row = spark.measured(_waiting, size=Size.QUICK, wall=1.0)
    assert row == {"over": "1 s by the wall clock"}
    rows: Rows = [{"kind": "one stream", "way": "Spark", "cores": cores, "events": 9, **row}
                  for cores in (1, 2)]  # fmt: skip
    assert "> 1 s by the wall clock" in spark.tables(rows)
    assert "not measured" in spark.meaning(rows)


def _waiting() -> Callable[[], Any]:
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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells")
def test_a_method_is_ended_at_its_caps_and_takes_nothing_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Size, "patience", property(lambda _: 0.3))
    assert apart(_endless, size=Size.QUICK) == {"over": "0.3 s"}
    assert apart(_dying, size=Size.QUICK) == {"failed": "the process ended with 3"}
    row = apart(partial, sum, [1, 2], size=Size.QUICK, told=_only)
    assert row["result"] == 3
    assert row["peak_growth_bytes"] >= 0
    monkeypatch.setattr(Size, "patience", property(lambda _: 60.0))
    monkeypatch.setattr(cells, "MEMORY_CAP", 300 << 20)
    assert apart(_hoarding, size=Size.QUICK) == {"over": "0.292969 GB"}
    assert apart(_hoarding_elsewhere, size=Size.QUICK) == {"over": "0.292969 GB"}
    until = time.monotonic() + 20  # it would sleep for a minute
    while any("held_elsewhere" in _command(told) for told in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert apart(_waiting, size=Size.QUICK, wall=1.5) == {"over": "1.5 s by the wall clock"}


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def _only(result: object) -> Row:
    return {"result": result}


def test_who_was_over_a_cap_is_not_run_on_what_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def over(_: object, case: Case, peer: str, **__: object) -> Row:
        asked.append(peer)
        return {"over": "3 s"} if peer == "iseq" else {"cpu_s": 1.0}

    monkeypatch.setattr(cells, "apart", over)
    case = Case(Pattern(2, ((0, 1, Relation.MEETS),), 5), *restless(2, 20, 0))
    sweep = Sweep(Size.QUICK)
    for _ in range(2):
        rows = sweep.compared(case, ("iseq", "tpstream"), n=4)
    assert asked == ["iseq", "tpstream", "tpstream"]
    assert rows[0]["skipped"] == "3 s"
    assert rows[1]["events_per_s"] == 20


def test_a_script_that_fails_leaves_the_others_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Size) -> Iterator[Row]:
        raise RuntimeError("broken")

    broken = dataclasses.replace(EXPERIMENTS["gain"], rows=fails)
    monkeypatch.setattr(main_module, "EXPERIMENTS", {**EXPERIMENTS, "gain": broken})
    wanted = ["gain", "powersets", "--tiny", "--no-figures", "--folder", str(tmp_path)]
    with pytest.raises(SystemExit, match="gain"):
        main(wanted)
    assert not (tmp_path / "results" / "gain.json").exists()
    assert (tmp_path / "results" / "powersets.json").exists()
    main(["powersets", *wanted[2:], "--resume"])
    assert "powersets: measured" in capsys.readouterr().out


def test_a_bad_order_costs_several_times_a_good_one() -> None:
    rows = select(tiny("plans"), query=plans.SKEWED)
    work = [row["work"] for row in rows if row["plan"].startswith("forced")]
    assert max(work) > 2 * min(work)
    for query in plans.IN_TURN:
        rows = select(tiny("plans"), query=query)
        ours = {row["plan"]: row["work"] for row in rows if row["plan"].startswith(plans.OURS)}
        assert len(ours) == 6
        assert max(ours.values()) > 2 * min(ours.values())
        (chosen,) = select(rows, plan=plans.PLANNING)
        assert min(ours.values()) <= chosen["work"] <= max(ours.values())


def test_the_steps_of_our_search_are_counted() -> None:
    for name, plan in (("plans", plans.PLANNING), ("adaption", "piestream, detector")):
        for row in select(tiny(name), plan=plan):
            assert row["work"] > 0 or not row["matches"]
        assert any(row["work"] > 0 for row in select(tiny(name), plan=plan))


def test_fits_leave_out_what_has_no_logarithm() -> None:
    assert exponent([1, 10, 100], [0, 5, 500]) == 2.0
    assert exponent([1], [1]) is None


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
        results.draw(EXPERIMENTS["gain"], tiny("gain"), tmp_path)
