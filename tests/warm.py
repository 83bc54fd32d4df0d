"""Compile the kernels once: ``python -m tests.warm``.

Workers of pytest-xdist that find no compiled kernels would all compile them at the same time.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["forget_stale_kernels"]

_PACKAGE = Path(__file__).parents[1] / "piestream"


def forget_stale_kernels(package: Path = _PACKAGE) -> int:
    """Delete compiled kernels if some kernel's source is newer; gives how many files went.

    Numba notices that a function's own file has changed, not that a function which it calls, in
    another file, has. Must run before anything of piestream is imported.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return 0  # done by the process that started this one
    compiled = [*package.rglob("*.nbi"), *package.rglob("*.nbc")]
    # The layout's and the relations' numbers are compiled in.
    sources = [package / "relations.py", *package.glob("joins/*.py")]
    sources += [path for path in package.rglob("*.py") if "numba" in path.read_text("utf-8")]
    if not compiled or not sources:
        return 0
    oldest = min(path.stat().st_mtime_ns for path in compiled)
    if all(path.stat().st_mtime_ns <= oldest for path in sources):
        return 0
    for path in compiled:
        path.unlink(missing_ok=True)
    return len(compiled)


def main() -> None:
    """Compile every kernel, which takes a minute where nothing is compiled yet."""
    forget_stale_kernels()
    if not any(_PACKAGE.rglob("*.nbi")):
        print("compiling the kernels, once", flush=True)
    import polars as pl

    import piestream as ps

    query = ps.query("FROM x ORDER BY t DEFINE a AS v > 0 PATTERN a WITHIN 9 RETURN SUM(a.v)")
    query.run(pl.DataFrame({"t": [1, 2], "v": [1, 0]}))


if __name__ == "__main__":
    main()
