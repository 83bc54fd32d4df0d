"""Reads the golden files: a query, ``==>``, what it prints; blocks are parted by ``----``."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "queries"


def golden_pairs(name: str) -> list[tuple[str, str]]:
    blocks = (FOLDER / name).read_text(encoding="utf-8").split("\n\n----\n\n")
    pairs = [tuple(block.split("\n==>\n", 1)) for block in blocks if block]
    return [(given, expected) for given, expected in pairs]
