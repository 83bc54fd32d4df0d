"""The code blocks of the documentation: read, run, and written back.

``python -m tests.docs.blocks`` writes into every page what its blocks print now. Read what it
changed before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "blocks_of", "outputs_of"]

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("docs/*.md"),
    ]
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: what language, which text, and where in its page."""

    language: str
    text: str
    line: int
    start: int
    end: int

    @property
    def command(self) -> str | None:
        """The command of a ``console`` block that calls piestream: ``$ piestream …``."""
        first, _, _ = self.text.partition("\n")
        if self.language == "console" and first.startswith("$ piestream"):
            return first.removeprefix("$ ")
        return None


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text("utf-8")
    return [
        Block(m[1], m[2], text.count("\n", 0, m.start()) + 2, m.start(2), m.end(2))
        for m in _FENCE.finditer(text)
    ]


def outputs_of(page: Path) -> Iterator[tuple[Block, str, str]]:
    """Each block that shows what something prints, the output on the page, and what was printed.

    The python blocks of a page are one program. A ``text`` block after one is its output; a
    ``console`` block holds a command and its output. Runs in the current directory.
    """
    namespace: dict[str, object] = {"__name__": "__page__"}
    printed: str | None = None
    for block in blocks_of(page):
        if block.language == "python":
            output = io.StringIO()
            # The blank lines make the line numbers of a traceback those of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with contextlib.redirect_stdout(output):
                exec(code, namespace)
            printed = output.getvalue()
        elif block.command is not None:
            expected = block.text.partition("\n")[2]
            yield block, expected, _run(block.command)
            printed = None
        elif block.language == "text" and printed is not None:
            yield block, block.text, printed
            printed = None


def _run(command: str) -> str:
    """What a command of the CLI prints."""
    from typer.testing import CliRunner

    from piestream.cli.app import app

    result = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, shlex.split(command)[1:], prog_name="piestream"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def _rewrite(page: Path) -> bool:
    text = page.read_text("utf-8")
    changes = []
    for block, expected, printed in outputs_of(page):
        if expected != printed:
            kept = block.text.partition("\n")[0] + "\n" if block.command else ""
            changes.append((block.start, block.end, kept + printed))
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    if changes:
        page.write_text(text, "utf-8")
    return bool(changes)


def main() -> None:
    """Write what blocks print now into the pages named, or into all."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or [p for p in PAGES if p.exists()]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page in pages:
            if _rewrite(page):
                print(f"rewritten: {page.name}")


if __name__ == "__main__":
    main()
