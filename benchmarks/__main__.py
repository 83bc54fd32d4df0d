"""``python -m benchmarks NAME [NAME ...] [--quick|--full|--show]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

from benchmarks import PROGRAMS
from benchmarks.measure import Row, Scale
from benchmarks.results_files import RESULTS, document, shown, table, write


def main(arguments: Sequence[str] | None = None) -> None:
    """Run programs one after the other; --full writes their results beside them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*PROGRAMS, "all"],
                        help=f"all, or {', '.join(PROGRAMS)}")  # fmt: skip
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const=Scale.QUICK,
                      help="up to a million events; prints a table (default)")  # fmt: skip
    size.add_argument("--full", dest="scale", action="store_const", const=Scale.FULL,
                      help="what is published; writes benchmarks/results/NAME.json")  # fmt: skip
    size.add_argument("--show", action="store_true", help="print what was written last")
    parser.set_defaults(scale=Scale.QUICK)
    chosen = parser.parse_args(arguments)
    names = PROGRAMS if "all" in chosen.names else chosen.names
    for name in names:
        program = import_module(f"benchmarks.{name}")
        print(f"\n## {program.TITLE} ({name})\n", flush=True)
        if chosen.show:
            print(shown(name, program.COLUMNS), flush=True)
            continue
        rows: list[Row] = list(program.rows(chosen.scale))
        print(table(program.COLUMNS, rows) if rows else "not measured here", flush=True)
        if chosen.scale is Scale.FULL:
            path = write(document(name, program.TITLE, chosen.scale, rows))
            print(f"\nwritten to {path.relative_to(RESULTS.parents[1])}", flush=True)


if __name__ == "__main__":
    main()
