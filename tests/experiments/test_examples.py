"""The examples in the baselines' docstrings give what they show."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

from experiments import baselines

MODULES = [
    f"experiments.baselines.{module.name}" for module in pkgutil.iter_modules(baselines.__path__)
]


@pytest.mark.parametrize("name", ["experiments.baselines", *MODULES])
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert sum(len(test.examples) for test in finder.find(baselines)) >= 5
