"""What `piestream` offers: every name and method is explained with an example, and loads lazily."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import piestream as ps

_METHODS = [
    ps.Query.run,
    ps.Query.open,
    ps.Query.explain,
    ps.Query.diagnose,
    ps.Query.why,
    ps.Query.why_not,
    ps.Query.intervals,
    ps.Query.export,
    ps.Query.timeline,
    ps.Query.report,
    ps.Session.push,
    ps.Session.advance,
    ps.Session.close,
    ps.Session.snapshot,
    ps.Session.statistics,
    ps.Status.json,
    ps.Status.of_json,
    ps.Status.prometheus,
]


@pytest.mark.parametrize(
    "documented", [*(getattr(ps, name) for name in ps.__all__ if name[0] != "_"), *_METHODS]
)
def test_every_public_name_has_an_example(documented: object) -> None:
    assert ">>>" in (inspect.getdoc(documented) or "")


def test_importing_piestream_loads_nothing_of_it() -> None:
    code = (
        "import sys, piestream\n"
        "print([name for name in sys.modules if name.startswith('piestream.')],"
        " {'polars', 'numpy', 'numba', 'typer'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] set()"


def test_query_stays_a_function_when_everything_is_loaded() -> None:
    for name in ps.__all__:
        getattr(ps, name)
    assert callable(ps.query)
    assert (
        ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").streams[0].order_by
        == "t"
    )
