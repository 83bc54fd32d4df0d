"""Type checkers know what comes back, and the declarations that they read agree with each other."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from piestream.language import options

_ROOT = Path(__file__).parents[2]


def test_the_kind_that_goes_in_comes_out_for_mypy() -> None:
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--no-error-summary",
               "--ignore-missing-imports", "--follow-imports=silent",
               "--cache-dir=.mypy_cache/typed_calls", "tests/api/typed_calls.py"]  # fmt: skip
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize(
    ("kinds", "keywords"),
    [
        ([options.OrderOptions], options.OrderKeywords),
        ([options.SessionOptions], options.SessionKeywords),
        ([options.RunOptions], options.RunKeywords),
        ([options.FileOptions], options.FileKeywords),
        ([options.SparkBoundedOptions, options.SparkStreamOptions], options.SparkKeywords),
    ],
)
def test_every_option_is_a_keyword_of_its_type(kinds: list[type], keywords: type) -> None:
    declared = {
        option.name: str(option.type).removesuffix(" | None") for k in kinds for option in fields(k)
    }
    given = {
        name: text.__forward_arg__.removesuffix(" | None")
        for name, text in keywords.__annotations__.items()  # those that are inherited too
    }
    assert given == declared
