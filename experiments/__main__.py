"""``python -m experiments NAME [NAME ...] [--full]``, ``all``, or ``report``."""

from __future__ import annotations

import os

# One thread for every peer: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from experiments import results
from experiments.catalogue import EXPERIMENTS
from experiments.experiment import Experiment
from experiments.measure import Rows, Size


def main(arguments: Sequence[str] | None = None) -> None:
    """Run experiments: numbers, figures, and the report of all results there are."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME",
                        choices=[*EXPERIMENTS, "all", "report"],
                        help=f"all, report, or {', '.join(EXPERIMENTS)}")  # fmt: skip
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", dest="size", action="store_const", const=Size.FULL,
                       help="the large sizes: more than an hour for all")  # fmt: skip
    sizes.add_argument("--tiny", dest="size", action="store_const", const=Size.TINY,
                       help="a few seconds, to see that it runs")  # fmt: skip
    parser.set_defaults(size=Size.QUICK)
    parser.add_argument("--folder", type=Path, default=results.FOLDER,
                        help="where results, figures and the report go (default: beside this)")  # fmt: skip
    parser.add_argument("--no-figures", action="store_true", help="numbers only")
    parser.add_argument("--resume", action="store_true",
                        help="leave out what this code has measured at this size")  # fmt: skip
    chosen = parser.parse_args(arguments)
    names = list(EXPERIMENTS) if "all" in chosen.names else chosen.names
    faults = []
    for name in names:
        if name == "report":
            _draw_all(chosen.folder, chosen.no_figures)
        elif chosen.resume and results.is_measured(name, chosen.size, chosen.folder):
            print(f"\n{name}: measured at this size by this code", flush=True)
        else:
            try:
                _run(EXPERIMENTS[name], chosen.size, chosen.folder, chosen.no_figures)
            except Exception:  # the others' results are worth having
                traceback.print_exc()
                faults.append(name)
    path = results.report(list(EXPERIMENTS.values()), chosen.folder)
    print(f"\nwritten: {path.name} and the files beside it in {path.parent.name}/")
    if faults:
        sys.exit(f"failed, and their results are as before: {', '.join(faults)}")


def _run(experiment: Experiment, size: Size, folder: Path, no_figures: bool) -> None:
    """Measure, write, draw, and print one experiment."""
    print(f"\n## {experiment.title} ({experiment.name})\n", flush=True)
    before, load = time.perf_counter(), os.getloadavg()[0]
    rows: Rows = list(experiment.rows(size))
    seconds = time.perf_counter() - before
    results.write(results.document(experiment, size, rows, seconds, load), folder)
    if not no_figures:
        results.draw(experiment, rows, folder)
    print(f"{experiment.tables(rows)}\n\n{experiment.meaning(rows)}\n", flush=True)
    print(f"({seconds:.0f} s)", flush=True)


def _draw_all(folder: Path, no_figures: bool) -> None:
    """Draw the figures of the results there are again."""
    for experiment in EXPERIMENTS.values():
        told = results.load(experiment.name, folder)
        if told is not None and not no_figures:
            results.draw(experiment, told["rows"], folder)


if __name__ == "__main__":
    main()
