"""Results with their provenance, which of them are reported, and the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.catalogue import EXPERIMENTS
from experiments.harness import provenance, store
from experiments.harness.experiment import Experiment
from experiments.harness.figures import save, time_curves
from experiments.harness.measure import HARNESS, HARNESSES, Row, Rows, Size
from experiments.harness.report import report
from experiments.harness.store import Document, best, document
from experiments.peers import OURS


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
