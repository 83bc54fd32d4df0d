"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import piestream

_OPTIONAL = ("pyspark", "altair", "matplotlib")
_MODULES = sorted(
    found.name for found in pkgutil.walk_packages(piestream.__path__, "piestream.")
    if not found.name.endswith("__main__")
)  # fmt: skip


@pytest.mark.parametrize("name", ["piestream", *_MODULES])
def test_the_examples_of_a_module(name: str) -> None:
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(_OPTIONAL):
            raise
        pytest.skip(f"needs {error.name}")
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [
        test
        for name in (
            "piestream.language.builder",
            "piestream.adapters.session",
            "piestream.testing",
        )
        for test in finder.find(import_module(name))
        if test.examples
    ]
    assert len(found) >= 4
