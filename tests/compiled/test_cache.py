"""Kernels on disk are never older than the sources that they were made from."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import caching, dispatcher

import piestream
from piestream.compiled.cache import KernelCache, kernel_sources
from piestream.compiled.interpreted import INTERPRETED
from piestream.engine import ordering
from piestream.joins import maintenance

_PACKAGE = Path(piestream.__file__).parent

#: A kernel in one file that calls one in another, uses its number, and a record's field.
_CALLEE = """
from piestream.compiled.records import Record, Words, kernel
NUMBER = {number}
class Pair(Record):
    {fields}
@kernel
def callee(words: Words) -> int:
    return {result}
"""
_CALLER = """
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, kernel
from piestream.joins.callee import NUMBER, Pair, callee
@kernel
def caller(array: Array) -> int:
    found = callee(pointer(array)) + NUMBER + Pair(pointer(array)).wanted
    keep_alive(array)
    return found
"""
_RUN = """
import numpy as np
from piestream.joins.caller import caller
print(caller(np.array([10, 20])), sum(caller.dispatcher._cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of what kernels are made of, without anything compiled."""
    copy = tmp_path / "piestream"
    for folder in ("compiled", "joins"):
        (copy / folder).mkdir(parents=True)
        shutil.copy(_PACKAGE / folder / "__init__.py", copy / folder)
    for path in (_PACKAGE / "compiled").glob("*.py"):
        shutil.copy(path, copy / "compiled")
    (copy / "__init__.py").write_text("")
    (copy / "joins" / "caller.py").write_text(_CALLER)
    return copy


def _result(package: Path, number: int, fields: str, result: str) -> tuple[int, int]:
    """What a new process gets from the caller, and how often it found that compiled on disk."""
    source = _CALLEE.format(number=number, fields=fields, result=result)
    (package / "joins" / "callee.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": ""}
    run = subprocess.run(
        [sys.executable, "-c", _RUN], cwd=package.parent, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    value, hits = run.stdout.split()
    return int(value), int(hits)


def test_a_change_of_a_callee_a_number_or_a_record_is_never_missed(package: Path) -> None:
    assert _result(package, 1, "wanted: int", "words[0]") == (10 + 1 + 10, 0)
    assert _result(package, 1, "wanted: int", "words[0]") == (10 + 1 + 10, 1)
    assert _result(package, 1, "wanted: int", "words[1]") == (20 + 1 + 10, 0)
    assert _result(package, 2, "wanted: int", "words[1]") == (20 + 2 + 10, 0)
    assert _result(package, 2, "other: int; wanted: int", "words[1]") == (20 + 2 + 20, 0)
    assert _result(package, 2, "other: int; wanted: int", "words[1]") == (20 + 2 + 20, 1)
    # what was stale is overwritten, not kept
    assert len([*(package / "joins").rglob("caller*.nbi")]) == 1
    assert len([*(package / "joins").rglob("caller*.nbc")]) == 1


def _imports(path: Path) -> set[Path]:
    """The files of the package that a file imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "piestream":
                file = _PACKAGE.joinpath(*parts[1:]).with_suffix(".py")
                found |= {file} if file.exists() else set()
    return found


def test_the_digest_is_of_all_that_kernels_are_made_of() -> None:
    """Whatever a kernel's file imports from may be compiled in, whether code, record or number."""
    sources = set(kernel_sources())
    assert len(sources) > 15
    assert set().union(*map(_imports, sources)) <= sources
    using = [
        path
        for path in _PACKAGE.rglob("*.py")
        if path not in sources and "@kernel" in path.read_text("utf-8")
    ]
    assert [path.name for path in using] == ["ordering.py"]  # whose own file Numba watches


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_numba_still_has_what_the_cache_builds_on() -> None:
    """All that is private to Numba; if one of these is gone, look at compiled/cache.py."""
    version = f"Numba {numba.__version__} is unlike those that compiled/ was written for: "
    for kernel in (ordering.order_faults, maintenance.compact):
        assert isinstance(kernel.dispatcher._cache, KernelCache), version + "a dispatcher's _cache"
        locator = kernel.dispatcher._cache._impl.locator
        for place in kernel.dispatcher._cache._places:
            assert place._source_stamp == locator.get_source_stamp(), version + "a cache file"
        assert locator.get_disambiguator() in kernel.dispatcher._cache._impl.filename_base, (
            version + "names"
        )
    for private in ("_load_overload", "_save_overload", "_index_key"):
        assert hasattr(caching.Cache, private), version + "caches"
    assert issubclass(KernelCache, caching.Cache), version + "caches"
    assert caching.FunctionCache._impl_class is caching.CompileResultCacheImpl, version + "caches"
    assert hasattr(dispatcher.Dispatcher, "get_call_template"), version + "calls of dispatchers"
