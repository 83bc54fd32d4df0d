"""The wheel: it has all of the package, and works in an environment of its own, away from its sources."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_QUERY = (
    "FROM pumps ORDER BY t DEFINE hot AS x > 1, loud AS y > 1 PATTERN hot overlaps loud WITHIN 9"
)
_ROWS = "t,x,y\n1,0,0\n2,5,0\n3,5,5\n4,0,5\n5,0,0\n"
_FOUND = ["detected_at,hot_ts,hot_te,loud_ts,loud_te", "4,2,4,3,"]


def _run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of what belongs to the project alone."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "piestream"):
        (source / name).symlink_to(_ROOT / name)
    command = "-m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir"
    _run(sys.executable, *command.split(), folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; what it depends on is lent by ours."""
    folder = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    programs = folder / "bin"
    command = "-m pip --disable-pip-version-check --python"
    install = "install --quiet --no-deps --no-index"
    _run(sys.executable, *command.split(), programs / "python", *install.split(), wheel, cwd=folder)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    (packages,) = _run(programs / "python", "-c", where, cwd=folder).splitlines()
    # a path alone: what .pth files lend there, such as these sources, is not found
    (Path(packages) / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = _ROOT / "piestream"
    files = (p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    expected = {str(path.relative_to(_ROOT)) for path in files}
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == expected


def test_a_query_runs_where_only_the_wheel_is_installed(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "pumps.csv").write_text(_ROWS)
    # interpreted, for its loops would be compiled anew in a new place
    run = "run", "-q", _QUERY, "pumps.csv", "-o", "found.csv"
    _run(installed / "piestream", *run, cwd=tmp_path, PIESTREAM_INTERPRETED="1", PYTHONPATH="")
    assert (tmp_path / "found.csv").read_text().splitlines() == _FOUND
    where = "import piestream; print(piestream.__file__)"
    (file,) = _run(installed / "python", "-c", where, cwd=tmp_path, PYTHONPATH="").splitlines()
    assert Path(file).is_relative_to(installed.parent)
