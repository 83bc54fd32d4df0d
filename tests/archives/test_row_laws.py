"""A row pattern over an archive gives what it gives on the whole as a frame, however little is read."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import cores, costs, planning
from piestream.archives.planning import ArchivePlan
from piestream.language.options import FileOptions
from tests.row_patterns.randoms import random_case

#: So many seeds are tried, and more until all of these have been read in part.
_SEEDS = 30
_KINDS = {"within", "of few rows", "at the start", "at the end", "NEXT", "PREV"}
_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}
_NOTHING = {"x": None, "name": "q", "a": False, "b": False, "c": False}


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select however much is to be read: these archives are small."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    monkeypatch.setattr(planning, "LOOKED_AT", 0.5)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)
    monkeypatch.setattr(cores, "_LEAST_SHARE", 1)


def _query(text: str, random: Random) -> ps.Query:
    """The query, mostly with WITHIN, or with as many rows at most, and often of what its rows alone say."""
    if "WITHIN" not in text and random.random() < 0.4:
        text = re.sub(r"PATTERN \(.*\)", _of_few_rows, text)
    elif "WITHIN" not in text:
        text = re.sub(r"(PATTERN \(.*\))\s+(DEFINE)", rf"\1 WITHIN {random.randint(1, 6)} \2", text)
    if random.random() < 0.4:
        text = text.replace("^", "A").replace("$", "B").replace(" WITH UNMATCHED ROWS", "")
        text = re.sub(r"\b(PREV|NEXT)\((FINAL |RUNNING )?(\w+\.x)(, \d)?\)", r"LAST(\3)", text)
    if random.random() < 0.4:
        anchored = random.choice([r"PATTERN (^ (\1))", r"PATTERN ((\1) $)"])
        text = re.sub(r"PATTERN \((.*)\)(?=\s+(?:WITHIN|DEFINE))", anchored, text)
    for column in re.findall(r"[abc]", "abc"):
        if random.random() < 0.4:
            text = re.sub(rf"\bAS {column}\b", f"AS {column} AND x > PREV(x)", text)
    return ps.query(text)


def _of_few_rows(pattern: re.Match[str]) -> str:
    """A pattern that repeats nothing without end."""
    return re.sub(r"[*+]|\{(\d),\}", lambda found: f"{{{found[1] or 0},3}}", pattern[0])


def _events(case: Any, random: Random) -> Iterator[dict[str, Any]]:
    """The rows of a case again and again, with others between them of which nothing holds."""
    time = 0
    for _ in range(random.randint(2, 7)):
        for key in range(random.choice([1, 1, 3])):
            for event in case.events(key):
                yield {**event, "t": event["t"] + time}
        time += max((event["t"] for event in case.events()), default=0) + 1
        for _ in range(random.choice([0, 3, 30])):
            yield {"k": random.randrange(3), "t": time, **_NOTHING}
            time += random.choice([1, 1, 5])


def _kinds(text: str) -> Iterator[str]:
    """What a query has that decides how far it looks."""
    yield "within" if "WITHIN" in text else "of few rows"
    signs = {"^": "at the start", "$": "at the end", "NEXT(": "NEXT", "PREV(": "PREV"}
    yield from (kind for sign, kind in signs.items() if sign in text)


@pytest.mark.parametrize("memory", [False, True], ids=["of one row", "with memory"])
def test_the_rows_are_those_of_the_whole_as_a_frame(
    memory: bool, seeds_in_all: Callable[[int], list[int]]
) -> None:
    selected = 0
    less: Counter[str] = Counter()
    least, most = len(seeds_in_all(_SEEDS)), seeds_in_all(20 * _SEEDS)
    for tried, seed in enumerate(most):
        if tried >= least and less.keys() >= _KINDS:
            break
        random = Random(f"rows of an archive {seed}")
        case = random_case(seed, 10, memory)
        try:
            query = _query(str(case.query), random)
        except ps.QueryError:
            query = case.query
        frame = pl.DataFrame(list(_events(case, random)), schema=_TYPES)
        if random.random() < 0.3:  # many rows of one time, in their order
            query = replace(query, streams=(replace(query.streams[0], row_order=True),))
            frame = frame.with_columns(pl.col("t") // random.choice([2, 3]))
        expected = query.run(frame, ties="first")
        with tempfile.TemporaryDirectory() as folder:
            key = random.choice([None, "k"])
            lake = ps.archive(folder, time="t", key=key, page_rows=random.choice([1, 2, 5, 9]))
            size = random.choice([7, 1000])
            for first in range(0, len(frame) or 1, size):
                lake.append(frame[first : first + size])
            if random.random() < 0.5:
                lake.compact()
            plan = ArchivePlan(query, lake.pages, FileOptions())
            if plan.cores:
                plan.settle()
            if plan.cores:
                selected += 1
                selection = plan.selection()
                selection.read_together(plan.cores, "first")
                if not selection.is_read.all():
                    less.update(_kinds(str(query)))
            found = query.run(lake, ties="first")
        assert found.schema == expected.schema
        keys = list(query.partition_by)
        assert found.sort(keys, maintain_order=True).equals(
            expected.sort(keys, maintain_order=True)
        ) if keys else found.equals(expected), f"seed {seed}: {query}"  # fmt: skip
    assert selected > tried // 16
    assert tried < len(most) - 1, less  # else something is never read in part
