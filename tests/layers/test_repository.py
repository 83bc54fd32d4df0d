"""What is not part of the project is not in its repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_nothing_that_git_ignores_is_in_the_repository() -> None:
    if not (_ROOT / ".git").exists():  # an unpacked source distribution
        return
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    ignored = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    assert ignored.split() == [], "git rm --cached takes them out"
