"""Row patterns over an archive, as the dissertation of M. Körber has them in its chapter 3.

Its synthetic stream: the i-th of n events has the time i and five attributes in [0, 1), normally distributed
around i / n, with deviations of 0, 0.001, 0.01, 0.1 and 1, the last of which is so wide that the values are
uniform. A pattern has m symbols, each a range of an attribute at a random place that covers up to a tenth of
the values; stars of any rows are between them at random places, about log2(m) of them. The window is 300.

Where one symbol alone is over an attribute, the others are over the one with the widest deviation.

There each attribute has a secondary index, which finds single events; here pages have bounds, which say
something where values come close together in time. So what is gained depends on the attribute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import archived, least_cost, reading_of, run_as, shown

__all__ = ["main"]

_DEVIATIONS = (0, 0.001, 0.01, 0.1, 1)


def stream(rows: int, seed: int = 0) -> pl.DataFrame:
    """The synthetic stream."""
    draw = np.random.default_rng(seed)
    ts = np.arange(1, rows + 1)
    columns = {"ts": ts}
    for number, deviation in enumerate(_DEVIATIONS, 1):
        values = draw.normal(ts / (rows + 1), deviation) if deviation < 1 else draw.random(rows)
        columns[f"a{number}"] = np.clip(values, 0, np.nextafter(1.0, 0.0))
    return pl.DataFrame(columns)


def pattern(symbols: int, attribute: str, draw: Random, others: str | None = None) -> str:
    """A query with so many symbols over one attribute, or one of them, at a random place, and the rest over another."""
    over = [others or attribute] * symbols
    over[draw.randrange(symbols)] = attribute
    start, width = draw.random(), draw.random() / 10
    low = min(start, 1 - width)
    defined = []
    for number in range(symbols):
        shift = draw.random() * width / 2
        defined.append(
            f"S{number} AS {over[number]} BETWEEN {low + shift:.6f} AND {low + width:.6f}"
        )
    parts = ["S0"]
    star = 0
    for number in range(1, symbols):
        if star < number and draw.random() < 1 / (symbols - number):
            parts.append("X*?")
            star = symbols if draw.random() < 0.5 else number
        parts.append(f"S{number}")
    return (
        "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(S0.ts) AS began, COUNT(*) AS n "
        f"PATTERN ({' '.join(parts)}) WITHIN 300 DEFINE {', '.join(defined)})"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each attribute and number of symbols."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--page-rows", type=int, default=2000)
    parser.add_argument("--symbols", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--queries", type=int, default=3)
    parser.add_argument("--times", type=int, default=1)
    size = parser.parse_args(arguments)
    table = []
    with archived([stream(size.rows)], size.page_rows) as lake:
        cases = [
            (attribute, symbols, others)
            for attribute in range(1, len(_DEVIATIONS) + 1)
            for others in (None, f"a{len(_DEVIATIONS)}")
            for symbols in size.symbols
            if others is None or (attribute < len(_DEVIATIONS) and symbols > 1)
        ]
        for attribute, symbols, others in cases:
            draw = Random(f"{attribute} {symbols}")
            replay = chosen = pages = 0.0
            for _ in range(size.queries):
                query = ps.query(pattern(symbols, f"a{attribute}", draw, others))
                ways: dict[str, Callable[[], object]] = {
                    "replay": partial(run_as, query, lake, False),
                    "archive": partial(run_as, query, lake, None),
                }
                costs = least_cost(ways, size.times)
                replay += costs["replay"][0]
                chosen += costs["archive"][0]
                pages += reading_of(query, lake).pages / len(lake.pages)
            table.append(
                {
                    "deviation": _DEVIATIONS[attribute - 1],
                    "symbols": symbols,
                    "over it": "all" if others is None else "one",
                    "pages that selecting reads": f"{pages / size.queries:.1%}",
                    "replay, ms": f"{1e3 * replay / size.queries:.0f}",
                    "archive, ms": f"{1e3 * chosen / size.queries:.0f}",
                    "gain": f"{replay / chosen:.1f}",
                }
            )
    print(shown(table))


if __name__ == "__main__":
    main()
