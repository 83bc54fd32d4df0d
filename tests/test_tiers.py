"""The tiers: what `tests/conftest.py` leaves out, which seeds it gives, and what it says of both."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest

_ROOT = Path(__file__).parents[1]
_LAWS = """
def test_a_law(few_seeds):
    assert max(few_seeds) < 1_000_000

def test_for_the_night():
    pass
"""
_SLOW = '[nightly]\n"tests/test_laws.py::test_for" = "of no use by day"\n[commit]\n'


@pytest.mark.parametrize("name", [name for names in conftest.SLOW.values() for name in names])
def test_a_slow_test_is_one_that_there_is(name: str) -> None:
    path, _, test = name.partition("::")
    assert (_ROOT / path).exists()
    if test:
        assert re.search(rf"def {re.escape(test.partition('[')[0])}", (_ROOT / path).read_text())


def test_of_several_names_the_longest_says_the_tier() -> None:
    of_spark = "tests/spark/test_spark_streams.py::test_values_of_every_type_come_through_a_stream"
    assert conftest.tier_of(of_spark) == "commit"
    assert conftest.tier_of("tests/spark/test_spark_streams.py::test_a_null_time") == "nightly"
    assert conftest.tier_of("tests/test_where.py::test_anything[one]") == "commit"


def test_half_of_the_seeds_are_fresh() -> None:
    config = SimpleNamespace(option=SimpleNamespace(fresh=7_000_000))
    assert conftest._seeds(config, 6) == (range(3), range(7_000_000, 7_000_003))  # type: ignore[arg-type]
    assert conftest._seeds(config, 0) == (range(1), range(7_000_000, 7_000_001))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_says_its_seeds_and_what_it_left_out(tmp_path: Path, workers: int) -> None:
    """Of a folder that is no clone: the first fresh seed follows from no commit."""
    (tmp_path / "tests").mkdir()
    shutil.copy(conftest.__file__, tmp_path / "tests")
    (tmp_path / "tests" / "slow.toml").write_text(_SLOW)
    (tmp_path / "tests" / "test_laws.py").write_text(_LAWS)
    command = f"-m pytest -q -p no:cacheprovider --commit -n {workers}"
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 1
    assert "laws on 40 seeds, half of them from 1000000 on" in done.stdout
    assert (
        "pytest 'tests/test_laws.py::test_a_law[fresh 0-3]' --laws 40 --fresh 1000000"
        in done.stdout
    )
    assert "1 test is in the nightly tier only: make test-all" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
