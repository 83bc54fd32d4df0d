"""Where compiled loops are kept: in an installation that cannot be written, and for another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import piestream
from piestream.compiled import cache
from piestream.compiled.announcement import ALWAYS, ONCE
from piestream.compiled.interpreted import INTERPRETED

pytestmark = [
    pytest.mark.skipif(INTERPRETED, reason="nothing is compiled"),
    pytest.mark.skipif(os.name != "posix", reason="needs permissions of files"),
]

_PACKAGE = Path(piestream.__file__).parent
_NOBODY = 65534
_KERNEL = """
from piestream.compiled.records import kernel
@kernel
def doubled(number: int) -> int:
    return 2 * number
"""
_RUN = """
import os, sys
if os.getuid() == 0:  # Python itself may lie where only root reads: what Numba needs is loaded first
    import numba, tempfile
    from numba.core import serialize
    from piestream.compiled import records
    from numba.core.caching import IndexDataCacheFile
    with tempfile.TemporaryDirectory() as room:
        numba.config.CACHE_DIR = room
        exec(compile(open({file!r}).read(), {file!r}, "exec"))
        doubled(1)
    numba.config.CACHE_DIR = tempfile.tempdir = None
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
{before}
from piestream.compiled import announcement
announcement.PATIENCE_SECONDS = 0.0
from piestream.joins.doubled import doubled
from piestream.compiled.cache import kept_in
print(doubled(4), sum(doubled.dispatcher._cache_hits.values()), kept_in({file!r}))
"""


class Installation:
    """A copy of what compiles loops, which nobody may write to, and a user who uses it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        package = root / "lib" / "piestream"
        shutil.copytree(
            _PACKAGE / "compiled",
            package / "compiled",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        (package / "joins").mkdir()
        self.kernel = package / "joins" / "doubled.py"
        self.kernel.write_text(_KERNEL)
        for folder in (package, package / "joins"):
            (folder / "__init__.py").write_text("")

    def seal(self) -> None:
        """Take away the right to write."""
        for path in [*(self.root / "lib").rglob("*"), self.root / "lib"]:
            path.chmod(0o555 if path.is_dir() else 0o444)

    def folder(self, name: str, writable: bool) -> Path:
        """A directory of that user."""
        made = self.root / name
        made.mkdir()
        if os.getuid() == 0:
            os.chown(made, _NOBODY, _NOBODY)
        made.chmod(0o700 if writable else 0o500)
        return made

    def run(self, before: str = "", **environment: object) -> tuple[int, int, str, str]:
        """What a process of that user gets: the result, hits, where loops are kept, standard error."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "TMP"))}
        kept |= {"PYTHONPATH": str(self.root / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
        script = _RUN.format(file=str(self.kernel), nobody=_NOBODY, before=before)
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=kept | {name: str(value) for name, value in environment.items()},
            cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        value, hits, place = done.stdout.split()
        return int(value), int(hits), place, done.stderr


@pytest.fixture
def installed() -> Iterator[Installation]:
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    made = Installation(root)
    yield made
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(root)


def test_what_was_compiled_when_it_was_installed_is_used_by_everybody(
    installed: Installation,
) -> None:
    if os.getuid() != 0:
        installed.folder("home", writable=True)
    own = {"HOME": installed.root / "home", "PYTHONPATH": str(installed.root / "lib")}
    subprocess.run(
        [sys.executable, "-c", "from piestream.joins.doubled import doubled; doubled(1)"],
        env={**os.environ, "NUMBA_CACHE_DIR": "", **{k: str(v) for k, v in own.items()}},
        cwd="/",
        check=True,
    )
    installed.seal()
    value, hits, _, said = installed.run(HOME="/nonexistent", TMPDIR="/nonexistent")
    assert (value, hits, said) == (8, 1, "")


def test_the_users_directory_for_caches_is_next(installed: Installation) -> None:
    installed.seal()
    home = installed.folder("home", writable=True)
    for hits in (0, 1):
        found = installed.run(HOME=home)
        assert found[:2] == (8, hits)
        assert found[2].startswith(f"{home}/")
        assert found[3].strip() in (["", ONCE] if hits == 0 else [""])


def test_without_a_home_that_can_be_written_the_temporary_directory_is_next(
    installed: Installation,
) -> None:
    installed.seal()
    home = installed.folder("home", writable=False)
    temporary = installed.folder("tmp", writable=True)
    for hits in (0, 1):
        found = installed.run(HOME=home, TMPDIR=temporary)
        assert found[:2] == (8, hits)
        assert found[2].startswith(f"{temporary}/piestream-")


def test_a_temporary_directory_that_somebody_else_could_write_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = cache.temporary_directory()
    assert cache.can_write(own / "joins")
    assert cache.is_trusted(own / "joins")
    own.chmod(0o777)
    assert not cache.is_trusted(own / "joins")
    assert not cache.can_write(own / "joins")
    shutil.rmtree(own)
    own.symlink_to(tmp_path)
    assert not cache.is_trusted(own / "joins")
    assert not cache.can_write(own / "joins")


def test_a_directory_is_made_only_where_loops_are_kept_in_it(installed: Installation) -> None:
    home = installed.folder("home", writable=True)
    temporary = installed.folder("tmp", writable=True)
    installed.seal()
    installed.run(HOME=home, TMPDIR=temporary)
    assert list(home.iterdir())
    assert not list(temporary.iterdir())


def test_where_nothing_can_be_written_each_process_compiles_and_says_why(
    installed: Installation,
) -> None:
    installed.seal()
    closed = installed.folder("closed", writable=False)
    # The temporary directory is searched for in three more places, all of which may be writable.
    script = f"import tempfile; tempfile.tempdir = {str(closed)!r}\n"
    for _ in range(2):
        value, hits, place, said = installed.run(script, HOME=closed)
        assert (value, hits, place) == (8, 0, "None")
        assert said.strip() in ("", ALWAYS)


def test_a_directory_that_fills_up_is_passed_over(installed: Installation) -> None:
    full = (
        "from numba.core.caching import IndexDataCacheFile\n"
        "def save(place, key, data):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "IndexDataCacheFile.save = save\n"
    )
    assert installed.run(full, HOME=installed.root / "home")[:2] == (8, 0)


def test_a_damaged_file_is_made_anew(installed: Installation) -> None:
    home = installed.folder("home", writable=True)
    installed.seal()
    installed.run(HOME=home)
    for path in home.rglob("*.nbi"):
        path.write_bytes(b"")
    assert installed.run(HOME=home)[:2] == (8, 0)
    assert installed.run(HOME=home)[:2] == (8, 1)
