"""Every folder imports only from those below it, lazily or not; pyproject.toml has their order."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_CONTRACT = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
    "contracts"
][0]
#: The height of each folder and top-level module: the higher may import the lower.
_HEIGHT = {
    name.strip(): height
    for height, names in enumerate(reversed(_CONTRACT["layers"]))
    for name in names.split("|")
}
_DOORS = [rule.split(" -> ") for rule in _CONTRACT["ignore_imports"]]


def _imported(source: str) -> Iterator[str]:
    """Every module or name of piestream that a source imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("piestream."))


def _allowed(importer: str, imported: str) -> bool:
    if any(fnmatch(importer, door) and fnmatch(imported, room) for door, room in _DOORS):
        return True
    above, below = importer.split(".")[1], imported.split(".")[1]
    if above == below or below not in _HEIGHT:  # a name of piestream itself, such as __version__
        return True
    return _HEIGHT[above] > _HEIGHT[below]


def _upward(importer: str, source: str) -> list[str]:
    return [name for name in _imported(source) if not _allowed(importer, name)]


def _modules() -> dict[str, Path]:
    package = _ROOT / "piestream"
    return {
        ".".join(("piestream", *path.relative_to(package).with_suffix("").parts)): path
        for path in package.rglob("*.py")
        if path.parent != package or path.stem not in ("__init__", "__main__")
    }


_MODULES = _modules()


@pytest.mark.parametrize("module", sorted(_MODULES))
def test_a_module_imports_only_from_lower_layers(module: str) -> None:
    assert module.split(".")[1] in _HEIGHT, "a new folder has no place among the layers yet"
    assert _upward(module, _MODULES[module].read_text("utf-8")) == []


def test_a_lazy_import_upward_is_seen() -> None:
    lazy = "def late():\n    from piestream.engine import stream\n"
    assert _upward("piestream.joins.event", lazy) == ["piestream.engine.stream"]


def test_only_the_query_has_a_door_upward() -> None:
    assert {importer for importer, _ in _DOORS} == {"piestream.language.model"}
