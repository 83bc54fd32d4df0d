"""``python -m experiments NAME [NAME ...] [--full]``; a name may be a group, ``all`` or ``report``."""

from __future__ import annotations

import os

# One thread for every method: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from experiments.catalogue import EXPERIMENTS, GROUPS
from experiments.harness import store
from experiments.harness.experiment import Experiment
from experiments.harness.figures import save
from experiments.harness.measure import Rows, Size
from experiments.harness.provenance import load
from experiments.harness.report import figure_path, report


def main(arguments: Sequence[str] | None = None) -> None:
    """Run experiments: numbers, figures, and the report of all results there are."""
    chosen = _parser().parse_args(arguments)
    faults = []
    for name in _names(chosen.names):
        if chosen.resume and store.is_measured(EXPERIMENTS[name], chosen.size, chosen.folder):
            print(f"\n{name}: measured at this size by this code", flush=True)
            continue
        try:
            _run(EXPERIMENTS[name], chosen.size, chosen.folder, chosen.figures)
        except Exception:  # the others' results are worth having
            traceback.print_exc()
            faults.append(name)
    if "report" in chosen.names and chosen.figures:
        _draw_all(chosen.folder)
    path = report(GROUPS, chosen.folder)
    print(f"\nwritten: {path.name} and the files beside it in {path.parent.name}/")
    if faults:
        sys.exit(f"failed, and their results are as before: {', '.join(faults)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME",
                        choices=[*EXPERIMENTS, *GROUPS, "all", "report"],
                        help=f"all; a group: {', '.join(GROUPS)}; or {', '.join(EXPERIMENTS)}; or "
                        "report, which measures nothing")  # fmt: skip
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", dest="size", action="store_const", const=Size.FULL,
                       help="the large sizes: hours for all")  # fmt: skip
    sizes.add_argument("--tiny", dest="size", action="store_const", const=Size.TINY,
                       help="a few seconds, to see that it runs")  # fmt: skip
    parser.set_defaults(size=Size.QUICK)
    parser.add_argument("--folder", type=Path, default=store.FOLDER,
                        help="where results, figures and the report go (default: beside this)")  # fmt: skip
    parser.add_argument("--no-figures", dest="figures", action="store_false", help="numbers only")
    parser.add_argument("--resume", action="store_true",
                        help="leave out what this code has measured at this size")  # fmt: skip
    return parser


def _names(given: Sequence[str]) -> list[str]:
    """The experiments of these names and groups, each once."""
    names: dict[str, None] = {}
    for name in given:
        if name == "all":
            names |= dict.fromkeys(EXPERIMENTS)
        elif name != "report":
            names |= dict.fromkeys(GROUPS.get(name, (name,)))
    return list(names)


def _run(experiment: Experiment, size: Size, folder: Path, figures: bool) -> None:
    """Measure, write, draw, and print one experiment."""
    print(f"\n## {experiment.title} ({experiment.name})\n", flush=True)
    before, load_before = time.perf_counter(), load()
    rows: Rows = list(experiment.rows(size))
    seconds = round(time.perf_counter() - before, 1)
    found = store.document(
        experiment, size, rows, seconds=seconds, load={"before": load_before, "after": load()}
    )
    store.write(found, folder)
    if figures and experiment.draw is not None:
        save(experiment, rows, figure_path(found, folder))
    print(f"{experiment.tables(rows)}\n\n{experiment.conclusions(rows)}\n\n({seconds:.0f} s)",
          flush=True)  # fmt: skip


def _draw_all(folder: Path) -> None:
    """Draw the figures of the results there are again."""
    for name, experiment in EXPERIMENTS.items():
        for size in Size:
            found = store.read(name, size, folder)
            if found is not None and experiment.draw is not None:
                save(experiment, found.rows, figure_path(found, folder))


if __name__ == "__main__":
    main()
