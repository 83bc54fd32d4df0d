"""What random scenarios mix: which two things of the language were in one query that had a match.

``python -m tests.pairs 0 1000`` prints the table of these seeds, and the pairs that were never met.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

__all__ = ["FEATURES", "features_of", "pairs_met"]

_LENGTH = r"-?(?:INTERVAL )?[\d.]+"
#: How a query that has a thing is recognised in its text.
FEATURES = {
    "several relations": r"\w+ (?:[a-z-]+(?:; ?| \| ))+",
    "set by name": r"\b(?:intersects|disjoint|covers|inside|precedes|succeeds)\b",
    "endpoints": r"\w+\.t[se] (?:[<>]=?|=) \w+\.t[se](?:$| AND|\n)",
    "distance": rf"\.t[se] - \w+\.t[se] (?:[<>]=?|=|BETWEEN) {_LENGTH}|\.t[se] (?:[<>]=?|=) \w+\.t[se] [-+] ",
    "followed-by": r"\bfollow(?:ed-by|s)\b",
    "WITHIN OF": r"(?:WITHIN|,) [\w ]+ OF \w+",
    "NOT": r"\bAND NOT \(\w+ (?:[a-z]|;)|\bAND NOT \(\w+\.t[se]",
    "ONCE PER": r"\nONCE PER ",
    "NO OVERLAP": r"\nNO OVERLAP",
    "COOLDOWN": r"\nCOOLDOWN ",
    "LIMIT": r"\nLIMIT ",
    "WHERE": r"\nWHERE ",
    "EMIT ON COMPLETION": r"EMIT ON COMPLETION",
    "EMIT ON BOTH": r"EMIT ON BOTH",
    "AT LEAST, AT MOST": r"(?:AT LEAST|AT MOST|BETWEEN|AND) [\d]+(?: (?!EVENTS)\w+)?(?=[\n, ])",
    "EVENTS": r"(?:AT LEAST|AT MOST|AND) \d+ EVENTS",
    "BRIDGING": r"\bBRIDGING\b",
    "UNTIL": r"\bUNTIL\b",
    "PREV": r"\bPREV\(",
    "OVER a time": r"\bOVER (?!\d+ EVENTS)",
    "OVER EVENTS": r"\bOVER \d+ EVENTS",
    "LET": r"\nLET ",
    "MAX GAP": r"\bMAX GAP\b",
    "ORDER BY ts, seq": r"ORDER BY ts(?: UNIT \w+)?, seq",
    "ORDER BY ts, ROW": r"ORDER BY ts(?: UNIT \w+)?, ROW",
    "PARTITION BY": r"\bPARTITION BY\b",
    "SILENCE": r"\bSILENCE\b",
    "several streams": r"\nWITH ",
    "rows": r"FROM began TO ended(?: UNIT \w+)?(?! (?:UNIT|ID|KNOWN))",
    "rows with ID": r"\bID id\b",
    "KNOWN AT START": r"\bKNOWN AT START\b",
    "query in brackets": r"\(FROM (?!\w+ MATCH_RECOGNIZE)",
    "row pattern": r"\bMATCH_RECOGNIZE\b",
}
_FOUND = {name: re.compile(pattern) for name, pattern in FEATURES.items()}
#: Two of these are never in one query: it has one of them.
_ONE_OF = ({"EMIT ON COMPLETION", "EMIT ON BOTH"}, {"ORDER BY ts, seq", "ORDER BY ts, ROW"})


def features_of(text: str, options: Iterable[str] = ()) -> tuple[str, ...]:
    """What a query has, by its text."""
    return (*(name for name, found in _FOUND.items() if found.search(text)), *options)


def pairs_met(queries: Iterable[tuple[str, ...]]) -> Counter[tuple[str, str]]:
    """How many queries have two things; with itself, how many have a thing."""
    met: Counter[tuple[str, str]] = Counter()
    for found in queries:
        met.update((one, one) for one in found)
        met.update(combinations(found, 2))
    return met


def not_met(met: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs of things that were both met, but never with each other."""
    every = [name for name in FEATURES if met[name, name]]
    return [
        pair
        for pair in combinations(every, 2)
        if not met[pair] and not any({*pair} <= one for one in _ONE_OF)
    ]


def main(first: int, end: int) -> None:
    """Print what the scenarios of these seeds with a match mix."""
    from tests.mixed import mixed

    texts = (mixed(seed) for seed in range(first, end))
    met = pairs_met(features_of(one.text()) for one in texts if one.had_matches)
    names = [name for name in FEATURES if met[name, name]]
    for number, name in enumerate(names):
        row = [met[other, name] for other in names[: number + 1]]
        print(f"{name:>20} " + " ".join(f"{count:5}" for count in row))
    print("\nnever met:", *(" x ".join(pair) for pair in not_met(met)), sep="\n  ")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
