"""Every experiment runs at a tiny size, draws, concludes, and shows what it claims to show."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from random import Random
from types import FrameType

import pytest

import piestream as ps
from experiments.benchmarks import join_orders
from experiments.catalogue import EXPERIMENTS, GROUPS
from experiments.comparisons import iseq_sweeps, plans
from experiments.comparisons.correctness import AS_PUBLISHED
from experiments.comparisons.futures import earliest
from experiments.comparisons.powersets import _base
from experiments.harness import store
from experiments.harness.figures import save
from experiments.harness.measure import Rows, Size
from experiments.harness.provenance import ENGINE
from experiments.harness.report import figure_path, report
from experiments.harness.tables import select
from experiments.peers import BITS, FRAME, INPUTS, OURS, PEERS
from experiments.peers.pattern import Pattern
from experiments.spark import cores
from experiments.streams import restless
from tests.experiments import brute

#: Rooms that decide neither results nor speed, whatever they are called for.
APART = ("__init__.py", "cli", "demo", "diagnosis", "errors.py", "monitoring", "pictures", "show")


@cache
def tiny_and_called(name: str) -> tuple[Rows, list[str]]:
    """The rows of an experiment, as they come back from their file, and the package's files it called."""
    called: set[str] = set()

    def note(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_flags & CO_OPTIMIZED:  # a function, and not a module or class being made
            called.add(frame.f_code.co_filename)

    before = sys.gettrace()
    sys.settrace(note)
    try:
        rows: Rows = json.loads(json.dumps(list(EXPERIMENTS[name].rows(Size.TINY))))
    finally:
        sys.settrace(before)
    package = Path(ps.__file__).parent
    files = (Path(file) for file in sorted(called) if file.startswith(str(package)))
    return rows, [file.relative_to(package).as_posix() for file in files]


def tiny(name: str) -> Rows:
    return tiny_and_called(name)[0]


def is_in(file: str, rooms: Iterable[str]) -> bool:
    return any(file == room or file.startswith(f"{room}/") for room in rooms)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_names_the_rooms_of_the_package_that_it_runs_in(name: str) -> None:
    rooms, (_, called) = EXPERIMENTS[name].rooms, tiny_and_called(name)
    assert [file for file in called if not is_in(file, (*rooms, *APART))] == []
    if name in ("cold_start", *GROUPS["spark"]):
        return  # nothing is measured in this process
    idle = [room for room in rooms if not any(is_in(file, [room]) for file in called)]
    assert {*idle} <= {*ENGINE}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_measures_concludes_and_draws(name: str, tmp_path: Path) -> None:
    experiment, rows = EXPERIMENTS[name], tiny(name)
    assert rows
    assert all(row["seed"] == 0 for row in rows)
    made = store.document(experiment, Size.TINY, rows, seconds=1.0)
    store.write(made, tmp_path)
    assert store.read(name, Size.TINY, tmp_path) is not None
    assert experiment.tables(rows).count("\n|") > 1
    assert "**" in experiment.conclusions(rows)
    page = report({"group": {name: experiment}}, tmp_path).read_text()
    assert experiment.title in page
    if experiment.draw is None:
        return
    pytest.importorskip("matplotlib")
    path = figure_path(made, tmp_path)
    assert save(experiment, rows, path).stat().st_size > 1_000
    assert f"figures/tiny/{name}.svg" in page


@pytest.mark.parametrize(
    "name", ["fig4a", "fig4b", "drivers", "rollover", "disconnected", "patterns", "complexity"]
)
def test_every_method_is_given_both_forms_of_the_input(name: str) -> None:
    rows = tiny(name)
    methods = {form: {row["peer"] for row in select(rows, input=form)} for form in INPUTS}
    in_sql = {"duckdb", "polars"} if name != "complexity" else set()  # they count no work
    assert methods[BITS] == methods[FRAME] >= {OURS, "tpstream", "iseq", *in_sql}
    assert all(
        row["plan"] for row in rows if row["peer"] in ("duckdb", "polars") and "matches" in row
    )
    tables = EXPERIMENTS[name].tables(rows)
    assert all(form in tables for form in INPUTS)


@pytest.mark.parametrize(
    "name", ["fig4a", "fig4b", "drivers", "rollover", "disconnected", "patterns", "complexity"]
)
def test_methods_that_report_at_the_same_instants_count_alike(name: str) -> None:
    rows = tiny(name)
    measured = ("peer", "input", "matches", "events", "cars", "days", "planted", "seed")
    keys = [key for key in rows[0] if key not in measured and isinstance(rows[0][key], str | int)]
    keys = [key for key in keys if key in ("n", "length", "window", "pattern", "kind", "draw", "x",
                                           "sweep", "variant", "then")]  # fmt: skip
    counts: dict[tuple[object, ...], set[int]] = {}
    for row in rows:
        if "matches" in row:
            case = (*(row.get(key) for key in keys), PEERS[row["peer"]].reports)
            counts.setdefault(case, set()).add(row["matches"])
    assert len(counts) > 1
    assert all(len(found) == 1 for found in counts.values()), counts
    if name != "patterns":  # of relations that are rare
        assert any(found != {0} for found in counts.values())


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("iseq_types", "query"),
        ("iseq_length", "length"),
        ("iseq_intervals", "interval"),
        ("iseq_density", "density"),
    ],
)
def test_iseq_in_all_forms_counts_what_piestream_counts(name: str, x: str) -> None:
    counts: dict[object, dict[str, int]] = {}
    for row in tiny(name):
        counts.setdefault((row[x], row["input"]), {})[row["peer"]] = row["matches"]
    assert len(counts) > 2
    for (_, form), found in counts.items():
        assert set(found) == {*iseq_sweeps.METHODS} - ({OURS} if form == BITS else set())
    for value in {value for value, _ in counts}:
        assert len({count for form in INPUTS for count in counts[value, form].values()}) == 1, (
            counts
        )
    assert any(any(found.values()) for found in counts.values())
    headline = EXPERIMENTS[name].headline
    assert headline is not None
    assert any(row["peer"] == OURS for rows in headline(tiny(name)).values() for row in rows)
    assert "equally many" in EXPERIMENTS[name].conclusions(tiny(name))


def test_the_query_of_an_iseq_load_is_its_pattern() -> None:
    for tenths, ends in ((10, 10), (7, 7), (5, 5), (0, 0)):
        load = iseq_sweeps.Load(tenths=tenths)
        assert load.endpoints.count("te") == ends
        assert Pattern.of(iseq_query_of_events(load)).constraints == load.pattern.constraints


def iseq_query_of_events(load: iseq_sweeps.Load) -> ps.Query:
    """The query with runs in place of rows: methods over bits know no rows."""
    text = str(load.query).replace("FROM ev FROM ts TO te", "FROM ev ORDER BY ts")
    return ps.query(text)


@pytest.mark.parametrize("size", Size)
def test_results_that_are_kept_fit_the_experiments_that_made_them(size: Size) -> None:
    folder = store.FOLDER / "results" / size.value
    for path in sorted(folder.glob("*.json")):
        found = store.read(path.stem, size)
        assert found is not None
        assert size is not Size.TINY
        experiment = EXPERIMENTS[path.stem]
        assert experiment.tables(found.rows)
        assert experiment.conclusions(found.rows)
        if experiment.draw is not None:
            assert figure_path(found).exists()


def test_the_report_is_that_of_the_results_that_are_kept(tmp_path: Path) -> None:
    page = (store.FOLDER / "report.md").read_text()
    for name, experiment in EXPERIMENTS.items():
        kept = [found for size in Size if (found := store.read(name, size)) is not None]
        assert kept, name
        found, _ = store.best(experiment)
        assert found is not None
        assert experiment.tables(found.rows) in page, name
        assert experiment.conclusions(found.rows) in page, name
        stale = page.splitlines()[0].startswith("**Stale:**") and f" {name}" in page.splitlines()[0]
        assert stale or not found.faults(experiment), name


# What the experiments claim


def test_brute_force_over_futures_is_that_of_the_methods_tests() -> None:
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
    mine = select(tiny("earliness"), peer=OURS)
    assert sum(row["possible"] for row in mine) > 300
    for row in mine:
        faults = ("missing", "false", "repeated", "late", "early", "delay_most")
        assert not any(row[fault] for fault in faults), row
    assert "each at the earliest possible instant" in EXPERIMENTS["earliness"].conclusions(mine)
    mine[0] = {**mine[0], "late": 3}
    assert "3 late, on 1 sets" in EXPERIMENTS["earliness"].conclusions(mine)


@pytest.mark.parametrize("peer", ["tpstream", "tpstream-published", "piestream-paper", "iseq"])
def test_peers_are_exact_and_never_early(peer: str) -> None:
    found = [row for row in select(tiny("earliness"), peer=peer) if "refused" not in row]
    assert found
    for row in found:
        assert not row["missing"] + row["false"] + row["repeated"] + row["early"], row


def test_sets_are_where_single_relations_are_late() -> None:
    group = "{overlaps, finished-by, contains}"
    for peer, late in (("tpstream", False), ("tpstream-published", True), ("iseq", True)):
        (row,) = select(tiny("earliness"), peer=peer, relations=group)
        assert bool(row["late"]) == late


def test_correctness_counts_faults_where_there_are_some() -> None:
    counts = {row["reading"]: row for row in tiny("correctness")}
    exact = counts["piestream"]
    assert exact["true"] > 10
    assert not exact["missing"] + exact["false"] + exact["repeated"] + exact["late"]
    printed = counts["TPStream, as printed"]
    assert printed["missing"] + printed["false"] > 0
    assert counts["ISEQ, begin punctuations"]["late"] > 0
    assert AS_PUBLISHED in counts
    conclusions = EXPERIMENTS["correctness"].conclusions(tiny("correctness"))
    assert "**Exact** (" in conclusions
    assert "TPStream, as printed:" in conclusions


def test_the_precise_relation_has_no_false_alarms() -> None:
    rows = tiny("rollover")
    for peer in (OURS, "piestream-paper", "duckdb"):
        for form in INPUTS:
            (precise,) = select(rows, then="followed-by", peer=peer, input=form)
            (wide,) = select(rows, then="before", peer=peer, input=form)
            assert precise["false"] == 0 < wide["false"]
            assert precise["found"] == wide["found"] == precise["planted"]
    for row in select(rows, then="followed-by", peer="tpstream"):
        assert "thirteen" in row["refused"]


def test_plans_and_their_adaption_change_no_count() -> None:
    for query in {row["query"] for row in tiny("plans")}:
        assert len({row["matches"] for row in select(tiny("plans"), query=query)}) == 1
    adapting, first, ours = tiny("adaption")[:3]
    assert adapting["matches"] == first["matches"] == ours["matches"] > 0


def test_a_bad_order_costs_several_times_a_good_one() -> None:
    rows = select(tiny("plans"), query=plans.SKEWED)
    work = [row["work"] for row in plans.forced_orders(rows, plans.THEIRS)]
    assert max(work) > 2 * min(work)
    for query in plans.IN_TURN:
        rows = select(tiny("plans"), query=query)
        ours = [row["work"] for row in plans.forced_orders(rows, plans.FORCED_OURS)]
        assert len(ours) == 6
        assert max(ours) > 2 * min(ours)
        (chosen,) = select(rows, plan=plans.OWN)
        assert min(ours) <= chosen["work"] <= max(ours)


def test_the_steps_of_our_search_are_counted() -> None:
    for name in ("plans", "adaption"):
        mine = select(tiny(name), plan=plans.OWN)
        assert all(row["work"] > 0 or not row["matches"] for row in mine)
        assert any(row["work"] > 0 for row in mine)


def test_subsets_grow_with_the_share_that_is_open() -> None:
    rows = tiny("powersets")
    wide = [row for row in rows if row["open"] > 0.8]
    rare = [row for row in rows if row["open"] < 0.5]
    assert wide[-1]["subsets_an_interval"] > 3 * wide[0]["subsets_an_interval"] > 0
    assert rare[-1]["subsets_an_interval"] < wide[-1]["subsets_an_interval"]
    exact = [{"n": n, "subsets": 1, "subsets_an_interval": 1.5**n} for n in (6, 8, 10)]
    assert _base(exact) == pytest.approx(1.5)


def test_a_dead_end_has_no_match_though_its_first_symbols_have() -> None:
    assert all(row["matches"] == 0 for row in tiny("dead_end"))
    assert all(row["matches"] > 0 for row in tiny("sources"))


def test_sources_hold_the_same_events() -> None:
    for query in {row["query"] for row in tiny("sources")}:
        assert len({row["matches"] for row in select(tiny("sources"), query=query)}) == 1


def test_all_join_orders_find_the_same() -> None:
    found: dict[str, set[int]] = {}
    for row in tiny("join_orders"):
        found.setdefault(row["phase"], set()).add(row["matches"])
    assert set(found) == {":".join(map(str, ratios)) for ratios in join_orders.RATIOS}
    assert all(len(matches) == 1 for matches in found.values())


def test_threads_change_no_count() -> None:
    assert len({row["matches"] for row in tiny("threads") if "matches" in row}) == 1


def test_a_spark_that_hangs_is_shown_as_such() -> None:
    rows: Rows = [{"kind": cores.ONE_STREAM, "way": "Spark", "cores": count, "events": 9, "load": 0.5,
                   "over": "1 s of wall-clock time"} for count in (1, 2)]  # fmt: skip
    rows.append(
        {"kind": cores.ONE_STREAM, "way": "without Spark", "cores": 1, "events": 9, "load": 0.5}
    )
    assert "> 1 s of wall-clock time" in cores.tables(rows)
    assert "not measured" in cores.conclusions(rows)


def test_names_of_experiments_are_told_apart() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names)) == len(EXPERIMENTS)
    titles = {experiment.title for experiment in EXPERIMENTS.values()}
    assert len(titles) == len(names)
