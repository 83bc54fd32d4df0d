"""How many random cases the laws try: ``--laws N``, ``--laws-long``, or PIESTREAM_LAWS=N."""

from __future__ import annotations

import os
import signal

import pytest

#: So many seeds take a minute or so on two cores; a long run takes as many minutes as hours.
_DEFAULT = 200
_LONG = 20_000
#: Seeds in one test: large enough to share what is loaded, small enough for pytest-xdist.
_CHUNK = 50

# Of a job that a shell runs in the background SIGINT is ignored; tests send it, to themselves and to others.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("piestream")
    group.addoption(
        "--laws",
        type=int,
        default=int(os.environ.get("PIESTREAM_LAWS", _DEFAULT)),
        metavar="N",
        help=f"try the laws on N random cases (default {_DEFAULT}, or PIESTREAM_LAWS)",
    )
    group.addoption(
        "--laws-long", action="store_true", help=f"try the laws on {_LONG} random cases"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for ``seeds`` gets them in chunks.

    ``few_seeds`` is a fifth of them, ``fewest_seeds`` a tenth, for what takes long.
    """
    config = metafunc.config
    count = _LONG if config.getoption("--laws-long") else config.getoption("--laws")
    for name, share in (("seeds", 1), ("few_seeds", 5), ("fewest_seeds", 10)):
        many = max(1, count // share)
        if name in metafunc.fixturenames:
            chunks = [range(at, min(at + _CHUNK, many)) for at in range(0, many, _CHUNK)]
            ids = [f"{chunk.start}-{chunk.stop - 1}" for chunk in chunks]
            metafunc.parametrize(name, chunks, ids=ids)
