"""The two tiers of the suite, and the random cases that its laws try.

A test is in both tiers, or, if `tests/slow.toml` says so, in the nightly one alone. ``--commit`` runs the
commit tier; without it pytest runs whatever it is pointed at.

Half the seeds of the laws are the same in every run. The others follow from the commit, so that each commit
tries cases of its own: ``--fresh N`` tries those of another run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[1]

#: So many seeds are tried where nothing is said; `make test-all` tries thousands.
_DEFAULT = 40
#: Seeds in one test: large enough to share what is loaded, small enough for pytest-xdist.
_CHUNK = 10
#: Fresh seeds are these and up, far from those that are fixed; without a commit they begin here.
_FIRST_FRESH = 1_000_000
#: Seconds from which on a test is slow, and is named in slow.toml.
_SLOW = 2.0

#: The names of slow tests, or the beginnings of their names, and why they are; by tier.
SLOW: dict[str, dict[str, str]] = tomllib.loads((_ROOT / "tests/slow.toml").read_text("utf-8"))

# Of a job that a shell runs in the background SIGINT is ignored; tests send it, to themselves and to others.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("piestream")
    group.addoption(
        "--commit", action="store_true", help="leave out what tests/slow.toml keeps for the night"
    )
    group.addoption(
        "--laws",
        type=int,
        default=int(os.environ.get("PIESTREAM_LAWS", _DEFAULT)),
        metavar="N",
        help=f"try the laws on N seeds (default {_DEFAULT}, or PIESTREAM_LAWS)",
    )
    group.addoption(
        "--fresh",
        type=int,
        default=int(os.environ.get("PIESTREAM_FRESH", "0")),
        metavar="SEED",
        help="the first of the fresh seeds (default: of the commit, or PIESTREAM_FRESH)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The seeds of the commit, once for all workers."""
    config.option.fresh = config.option.fresh or _fresh()
    if getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = config.option.fresh
    config.pluginmanager.register(_Tiers(config), "piestream-tiers")


def _fresh() -> int:
    """The first fresh seed of the commit that is checked out."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # not a clone
        return _FIRST_FRESH
    return _FIRST_FRESH + int(done.stdout[:8], 16)


def pytest_sessionstart(session: pytest.Session) -> None:
    """What is tried, above the tests: also with ``-q``, which leaves out pytest's own header."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        option = session.config.option
        reporter.write_line(
            f"{'commit tier' if option.commit else 'both tiers'}; laws on {option.laws} seeds, half "
            f"of them from {option.fresh} on: --laws {option.laws} --fresh {option.fresh}"
        )


def _seeds(config: pytest.Config, number: int) -> tuple[range, range]:
    """So many seeds: the fixed ones, from 0 on, and as many fresh ones."""
    half, fresh = max(1, number // 2), config.option.fresh
    return range(half), range(fresh, fresh + half)


#: The fixtures that give seeds in chunks, and of how many of those asked for.
_SHARES = {"seeds": 1, "few_seeds": 5, "fewest_seeds": 10}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``seeds`` gets them in chunks.

    ``few_seeds`` is a fifth of them, ``fewest_seeds`` a tenth, for what takes long. Fixed seeds come in chunks
    of their own, the first of which begins with 0: what a test must have met is judged by that one.
    """
    for name in _SHARES.keys() & {*metafunc.fixturenames}:
        halves = _seeds(metafunc.config, metafunc.config.option.laws // _SHARES[name])
        chunks = {
            f"{kind} {at}-{min(at + _CHUNK, len(half)) - 1}": [*half[at : at + _CHUNK]]
            for kind, half in zip(("fixed", "fresh"), halves, strict=True)
            for at in range(0, len(half), _CHUNK)
        }
        metafunc.parametrize(name, [*chunks.values()], ids=[*chunks])


@pytest.fixture(scope="session")
def seeds_in_all(pytestconfig: pytest.Config) -> Callable[[int], list[int]]:
    """So many fixed seeds, for a test that counts what it met in all of them.

    The number is that for the usual ``--laws``, and grows with it.
    """
    return lambda usual: [*range(max(1, usual * pytestconfig.option.laws // _DEFAULT))]


def tier_of(name: str) -> str:
    """The tier of a test: that of the longest name in slow.toml with which its own begins."""
    found = [
        (len(key), tier) for tier, keys in SLOW.items() for key in keys if name.startswith(key)
    ]
    return max(found, default=(0, "commit"))[1]


class _Tiers:
    """Leaves out what is for the night, and says at the end what it left out and what is slow."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.left_out: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Tests of Spark come first, and then those that take long.

        The first tests are never handed from a worker to another one, so one worker starts the one Spark.
        """
        if self.config.option.commit:
            kept = [item for item in items if tier_of(item.nodeid) == "commit"]
            self.left_out = {item.nodeid for item in items} - {item.nodeid for item in kept}
            items[:] = kept
        items.sort(
            key=lambda item: ("spark_is_there" not in _fixtures(item), not is_slow(item.nodeid))
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Each test is told how long the processor worked for it, and for what it started."""
        before = sum(os.times()[:4])
        item.stash[_BEFORE] = before
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        if report.when == "teardown":
            worked = sum(os.times()[:4]) - item.stash[_BEFORE]
            report.user_properties.append(("processor", round(worked, 2)))
        if report.failed and {*_SHARES, "seeds_in_all"} & {*_fixtures(item)}:
            again = f"pytest {item.nodeid!r} --laws {self.config.option.laws} --fresh {self.config.option.fresh}"
            report.sections.append(("its seeds again", again))
        return report

    def pytest_sessionfinish(self) -> None:
        """A worker tells the process that started it what it left out."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["left_out"] = sorted(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out.update(getattr(node, "workeroutput", {}).get("left_out", ()))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.left_out:
            count = len(self.left_out)
            many = "1 test is" if count == 1 else f"{count:,} tests are"
            terminalreporter.write_line(f"{many} in the nightly tier only: make test-all")
        for line in _unnamed(terminalreporter):
            terminalreporter.write_line(line)


_BEFORE = pytest.StashKey[float]()


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def is_slow(name: str) -> bool:
    """Whether slow.toml names a test."""
    return any(name.startswith(key) for keys in SLOW.values() for key in keys)


def _unnamed(terminalreporter: Any) -> list[str]:
    """The tests that took long and are not in slow.toml, with their seconds."""
    seconds: dict[str, float] = {}
    worked: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
                worked.update(
                    (report.nodeid, v) for n, v in report.user_properties if n == "processor"
                )
    found = sorted((-worked.get(name, 0.0), name, spent) for name, spent in seconds.items())
    lines = [
        f"  {spent:6.1f} s, {-work:6.1f} s of the processor: {name}"
        for work, name, spent in found
        if -work > _SLOW and not is_slow(name)
    ]
    return ["took over 2 s, and are not in tests/slow.toml:", *lines] if lines else []
