"""Looks at statuses again and again: in a terminal, line by line, or for Prometheus."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import typer

from piestream.adapters.terminal import printable
from piestream.cli.process import DeferredSignals, EndedBySignalError
from piestream.errors import FileError
from piestream.monitoring.files import read_status, write_whole
from piestream.monitoring.prometheus import CONTENT_TYPE, exposition
from piestream.monitoring.status import Status
from piestream.monitoring.text import status_line, status_text

__all__ = ["print_metrics", "serve", "show", "statuses", "write_metrics"]

#: How often a wait looks whether a signal has come.
_PATIENCE = 0.1


@dataclass(frozen=True)
class _Look:
    """What was found at the paths: statuses, and why there are no others."""

    statuses: list[Status] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more by itself."""
        return not self.faults and all(s.condition != "running" for s in self.statuses)


def statuses(paths: Sequence[str]) -> _Look:
    """The statuses at paths; names that two of them share become their paths."""
    found: list[tuple[Path, Status]] = []
    look = _Look()
    for path in map(Path, paths):
        try:
            found += _in_folder(path) if path.is_dir() else [(path, read_status(path))]
        except (FileError, OSError) as error:
            look.faults.append(printable(str(error)).replace("\n", " "))
    names = [status.name for _, status in found]
    look.statuses.extend(
        status if names.count(status.name) == 1 else replace(status, name=str(path))
        for path, status in dict(found).items()
    )
    return look


def _in_folder(folder: Path) -> Iterator[tuple[Path, Status]]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append((path, read_status(path)))
        except FileError:  # a folder may hold other files too
            continue
    if not found:
        raise FileError(
            f"{folder} holds no status: a session writes one with query.open(status=...)"
        )
    yield from found


def _first_look(paths: Sequence[str]) -> _Look:
    """A look that has to find all that is asked for."""
    look = statuses(paths)
    if look.faults:
        raise FileError("\n".join(look.faults))
    return look


@contextmanager
def _until_ended() -> Iterator[DeferredSignals]:
    """Ctrl-C is how a watch is ended, and no fault."""
    try:
        with DeferredSignals() as signals:
            yield signals
    except EndedBySignalError as ended:
        if ended.exit_code != 128 + signal.SIGINT:
            raise


def _wait(seconds: float, signals: DeferredSignals) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        signals.check()
        time.sleep(min(left, _PATIENCE))
    signals.check()


def show(paths: Sequence[str], every: float, once: bool, json: bool) -> None:
    """Show statuses until all have ended: in place on a terminal, else a line for each look."""
    look = _first_look(paths)
    if json or once:
        for status in look.statuses:
            typer.echo(status.json() if json else status_text(status, time.time()))
        if once:
            return
    if sys.stdout.isatty() and not json:
        _draw(paths, every, look)
    else:
        _print_lines(paths, every, look, json)


def _print_lines(paths: Sequence[str], every: float, look: _Look, json: bool) -> None:
    with _until_ended() as signals:
        first = True
        while True:
            now = time.time()
            for status in [] if json and first else look.statuses:
                typer.echo(status.json() if json else _dated(status_line(status, now), now))
            for fault in look.faults:
                typer.echo(_dated(fault, now), err=json)
            sys.stdout.flush()
            if look.is_over:
                return
            _wait(every, signals)
            first = False
            look = statuses(paths)


def _dated(line: str, now: float) -> str:
    return f"{time.strftime('%H:%M:%S', time.localtime(now))} {line}"


def _draw(paths: Sequence[str], every: float, look: _Look) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def drawn(look: _Look) -> Text:
        now = time.time()
        blocks = [status_text(status, now) for status in look.statuses] + look.faults
        return Text("\n\n".join(blocks), no_wrap=True, overflow="ellipsis")

    with (
        _until_ended() as signals,
        Live(drawn(look), console=Console(), auto_refresh=False) as live,
    ):
        while not look.is_over:
            _wait(every, signals)
            look = statuses(paths)
            live.update(drawn(look), refresh=True)


# -- Prometheus ------------------------------------------------------------------------------------


def _metrics(look: _Look) -> str:
    """The exposition of what was found; what was not is a comment."""
    comments = "".join(f"# {fault}\n" for fault in look.faults)
    return exposition(look.statuses, time.time()) + comments


def print_metrics(paths: Sequence[str]) -> None:
    """Print the numbers once."""
    typer.echo(_metrics(_first_look(paths)), nl=False)


def write_metrics(paths: Sequence[str], every: float, once: bool, target: str) -> None:
    """Write the numbers to a file again and again, each time whole."""
    look = _first_look(paths)
    with _until_ended() as signals:
        while True:
            write_whole(Path(target), _metrics(look))
            if once:
                return
            _wait(every, signals)
            look = statuses(paths)


def serve(paths: Sequence[str], port: int) -> None:
    """Serve the numbers on this machine, read anew at each request."""
    _first_look(paths)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "piestream", ""
        timeout = 10.0

        def do_GET(self) -> None:
            known = self.path.partition("?")[0] in ("/", "/metrics")
            text = _metrics(statuses(paths)) if known else "the numbers are at /metrics\n"
            content = text.encode("utf-8", "backslashreplace")
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", CONTENT_TYPE if known else "text/plain")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *_: Any) -> None:
            """Requests are not told."""

    with _until_ended() as signals, _listening(port, Handler) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        print(f"serving {address}", file=sys.stderr, flush=True)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            while True:
                _wait(3600, signals)
        finally:
            server.shutdown()


def _listening(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            reason = error.strerror or os.strerror(error.errno or 0)
            raise OSError(f"cannot listen on port {port}: {reason}") from None
        raise OSError(f"port {port} is in use: choose another") from None
    server.daemon_threads = True
    return server
