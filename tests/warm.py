"""Compile the kernels once: ``python -m tests.warm``.

Workers of pytest-xdist that find no compiled kernels would all compile them at the same time.
"""

from __future__ import annotations


def main() -> None:
    """Compile every kernel, which takes a minute where nothing is compiled yet."""
    import polars as pl

    import piestream as ps

    query = ps.query("FROM x ORDER BY t DEFINE a AS v > 0 PATTERN a WITHIN 9 RETURN SUM(a.v)")
    query.run(pl.DataFrame({"t": [1, 2], "v": [1, 0]}))


if __name__ == "__main__":
    main()
