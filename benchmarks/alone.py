"""A piece of Python in a process of its own, which prints what it measured as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["alone"]

_ROOT = Path(__file__).parents[1]


def alone(program: str, *arguments: str, **environment: str) -> Any:
    """Run a program in a fresh interpreter; its last line of output is JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a measuring process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
