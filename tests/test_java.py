"""What ``make test`` does where Java is missing: it installs it, or says with what to install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_JAVA = "#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"
#: Installs a Java into the directory where it stands, if it is told to; notes what it is asked for.
_APT_GET = """#!/bin/sh
echo "$USER_IS apt-get $*" >>"$NOTES"
case "$*" in
  *install*) [ -e "$NOTES.refuse" ] && exit 100
             [ -e "$NOTES.stale" ] && exit 100
             cp "$NOTES.java" "$(dirname "$0")/java" ;;
  update) rm -f "$NOTES.stale" ;;
esac
"""
_SUDO = """#!/bin/sh
[ -e "$NOTES.password" ] && exit 1
[ "$1" = -n ] && shift
USER_IS=sudo exec "$@"
"""


class Machine:
    """A machine with these programs and no others, and a user with this number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder.parent / "notes"
        folder.mkdir()
        for name in ("sh", "sed", "head", "cp", "rm", "dirname", "true", "env"):
            (folder / name).symlink_to(str(shutil.which(name)))
        self.program("id", "#!/bin/sh\necho 1000\n")
        Path(f"{self.notes}.java").write_text(_JAVA.format(version="17.0.15"))
        Path(f"{self.notes}.java").chmod(0o755)

    def program(self, name: str, text: str) -> None:
        """Install a program."""
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def run(self, **environment: str) -> tuple[str, str]:
        """What the script writes to standard output and to standard error."""
        done = subprocess.run(
            [str(self.folder / "sh"), str(_ROOT / "tests" / "java.sh")],
            env={"PATH": str(self.folder), "NOTES": str(self.notes), **environment},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout, done.stderr

    @property
    def asked(self) -> list[str]:
        """What apt-get was asked for."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if os.name != "posix":
        pytest.skip("a script for Unix")
    return Machine(tmp_path / "bin")


INSTALL = "apt-get install -y --no-install-recommends openjdk-17-jre-headless"
SKIPPED = "The tests of Spark were skipped, because there is no Java 17. To run them too: "


def test_a_java_that_is_there_is_enough(machine: Machine) -> None:
    machine.program("java", _JAVA.format(version="21.0.2"))
    assert machine.run() == ("", "")


def test_a_java_may_be_named_by_its_home(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (machine.folder / "java").write_text("")
    shutil.copy(f"{machine.notes}.java", tmp_path / "jdk" / "bin" / "java")
    assert machine.run(JAVA_HOME=str(tmp_path / "jdk")) == ("", "")


def test_root_installs_it(machine: Machine) -> None:
    machine.program("id", "#!/bin/sh\necho 0\n")
    machine.program("apt-get", _APT_GET)
    machine.program("java", _JAVA.format(version="1.8.0_392"))  # too old for Spark
    out, err = machine.run()
    assert out == ""
    assert "installing Java 17 for the tests of Spark" in err
    assert machine.asked == [f" {INSTALL}"]


def test_who_has_sudo_without_a_password_installs_it(machine: Machine) -> None:
    machine.program("apt-get", _APT_GET)
    machine.program("sudo", _SUDO)
    assert machine.run()[0] == ""
    assert machine.asked == [f"sudo {INSTALL}"]


def test_lists_of_packages_are_brought_up_to_date_where_that_helps(machine: Machine) -> None:
    machine.program("id", "#!/bin/sh\necho 0\n")
    machine.program("apt-get", _APT_GET)
    Path(f"{machine.notes}.stale").touch()
    assert machine.run()[0] == ""
    assert machine.asked == [f" {INSTALL}", " apt-get update", f" {INSTALL}"]


def test_who_may_not_install_is_told_what_to_say(machine: Machine) -> None:
    machine.program("apt-get", _APT_GET)
    machine.program("sudo", _SUDO)
    Path(f"{machine.notes}.password").touch()
    assert machine.run() == (f"{SKIPPED}sudo apt-get install -y openjdk-17-jre-headless\n", "")
    assert machine.asked == []


def test_an_installation_that_fails_is_told(machine: Machine) -> None:
    machine.program("id", "#!/bin/sh\necho 0\n")
    machine.program("apt-get", _APT_GET)
    Path(f"{machine.notes}.refuse").touch()
    out, err = machine.run()
    assert out.startswith(SKIPPED)
    assert "apt-get could not install Java 17" in err


def test_elsewhere_the_command_is_that_of_the_system(machine: Machine) -> None:
    assert (
        machine.run()[0] == f"{SKIPPED}install Java 17 (https://adoptium.net) and set JAVA_HOME\n"
    )
    machine.program("brew", "#!/bin/sh\n")
    assert machine.run()[0] == f"{SKIPPED}brew install openjdk@17\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_it_is_the_last_line_of_make_test_whatever_the_tests_say(
    machine: Machine, tmp_path: Path
) -> None:
    for name in ("make", "touch"):
        (machine.folder / name).symlink_to(str(shutil.which(name)))
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\ncase "$*" in *pytest*) echo 3 failed; exit 1 ;; esac\n')
    python.chmod(0o755)
    done = subprocess.run(
        [str(machine.folder / "make"), "--no-print-directory", "test", f"VENV={tmp_path / 'venv'}",
         f"SHELL={machine.folder / 'sh'}"],
        cwd=_ROOT, env={"PATH": str(machine.folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout.splitlines()[-2:] == [
        "3 failed",
        f"{SKIPPED}install Java 17 (https://adoptium.net) and set JAVA_HOME",
    ]
