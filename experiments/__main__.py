"""``python -m experiments NAME [NAME ...] [--full]``, ``all``, or ``report``."""

from __future__ import annotations

import os

# One thread for every peer: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from experiments import results
from experiments.catalogue import EXPERIMENTS
from experiments.measure import Rows, Size


def main(arguments: Sequence[str] | None = None) -> None:
    """Run experiments: numbers, figures, and the report of all results there are."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME",
                        choices=[*EXPERIMENTS, "all", "report"],
                        help=f"all, report, or {', '.join(EXPERIMENTS)}")  # fmt: skip
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", dest="size", action="store_const", const=Size.FULL,
                       help="the papers' sizes: hours")  # fmt: skip
    sizes.add_argument("--tiny", dest="size", action="store_const", const=Size.TINY,
                       help="a few seconds, to see that it runs")  # fmt: skip
    parser.set_defaults(size=Size.QUICK)
    parser.add_argument("--folder", type=Path, default=results.FOLDER,
                        help="where results, figures and the report go (default: beside this)")  # fmt: skip
    parser.add_argument("--no-figures", action="store_true", help="numbers only")
    chosen = parser.parse_args(arguments)
    names = list(EXPERIMENTS) if "all" in chosen.names else chosen.names
    for name in names:
        if name == "report":
            _draw_all(chosen.folder, chosen.no_figures)
            continue
        experiment = EXPERIMENTS[name]
        print(f"\n## {experiment.title} ({name})\n", flush=True)
        before = time.perf_counter()
        rows: Rows = list(experiment.rows(chosen.size))
        results.write(results.document(experiment, chosen.size, rows), chosen.folder)
        if not chosen.no_figures:
            results.draw(experiment, rows, chosen.folder)
        print(f"{experiment.tables(rows)}\n\n{experiment.meaning(rows)}\n", flush=True)
        print(f"({time.perf_counter() - before:.0f} s)", flush=True)
    path = results.report(list(EXPERIMENTS.values()), chosen.folder)
    print(f"\nwritten: {path.name} and the files beside it in {path.parent.name}/")


def _draw_all(folder: Path, no_figures: bool) -> None:
    """Draw the figures of the results there are again."""
    for experiment in EXPERIMENTS.values():
        told = results.load(experiment.name, folder)
        if told is not None and not no_figures:
            results.draw(experiment, told["rows"], folder)


if __name__ == "__main__":
    main()
