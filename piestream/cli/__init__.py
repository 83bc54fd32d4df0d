"""The command line: ``piestream run``, ``check``, ``explain``, ``warm`` and ``demo``.

Nothing heavy is imported here: ``piestream --help`` answers at once.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line with the arguments of this process."""
    from piestream.cli.app import app

    app(prog_name="piestream")
