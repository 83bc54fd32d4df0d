"""The examples in the docstrings of the experiments give what they show."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import experiments

MODULES = [
    module.name
    for module in pkgutil.walk_packages(experiments.__path__, "experiments.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [import_module(name) for name in MODULES]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) >= 40
