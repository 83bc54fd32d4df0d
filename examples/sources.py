"""Where the data of the examples is: files inside of installed packages."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["file_of"]


def file_of(package: str, name: str) -> Path:
    """A file inside of an installed package, which is not imported."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise FileNotFoundError(
        f"{name} of the package {package} is not installed: "
        "pip install --no-deps -r examples/requirements.txt"
    )
