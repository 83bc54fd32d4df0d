"""Siddhi, an event processor that others wrote: intervals as events in order of their ends, joined in windows.

It runs in a Java process of its own. What is needed for it, none of it part of this project: the package
``PySiddhi``, which brings Siddhi's jars (5.1.7), and a JDK, which compiles the few lines that hand the
events over. Siddhi's own patterns give one match for each beginning, so every match takes joins: each
interval is kept for as long as the window and joined with what has ended before it.

The clock is the CPU time of the Java process from the first event to the last match. The first pass over
the events is the cold run, the least of two more in the same process, with new state, the warm one.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from experiments.peers.forms import Tables, tables
from experiments.peers.parts.interval_rows import interval_rows
from experiments.peers.parts.interval_sql import SIDES, any_of, join_order, widened
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Pattern, Result
from experiments.peers.peer import Matcher

__all__ = ["app", "matcher", "missing"]

#: The most that the JVM may use for its heap, below the limit at which a measurement is ended.
_HEAP = "4g"
#: A first pass of more CPU seconds than this is not repeated.
_REPEATED = 10.0

_PROGRAM = r"""
import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.output.StreamCallback;
import java.io.*;
import java.lang.management.ManagementFactory;
import java.nio.*;
import java.nio.file.*;

public class Run {
    static long count;
    static DataOutputStream out;

    static double cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime() / 1e9;
    }

    static double pass(String app, LongBuffer rows, boolean keep) throws Exception {
        SiddhiAppRuntime runtime = new SiddhiManager().createSiddhiAppRuntime(app);
        count = 0;
        runtime.addCallback("Found", new StreamCallback() {
            public void receive(Event[] events) {
                count += events.length;
                if (!keep) return;
                try {
                    for (Event event : events)
                        for (Object value : event.getData()) out.writeLong((Long) value);
                } catch (IOException fault) { throw new UncheckedIOException(fault); }
            }
        });
        runtime.start();
        var handler = runtime.getInputHandler("Runs");
        double before = cpu();
        for (int at = 0; at < rows.limit(); at += 4)
            handler.send(rows.get(at + 3), new Object[] {
                rows.get(at), rows.get(at + 1), rows.get(at + 2), rows.get(at + 3)});
        double took = cpu() - before;
        runtime.shutdown();
        return took;
    }

    public static void main(String[] given) throws Exception {
        String app = Files.readString(Path.of(given[0]));
        var bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(given[1]))).order(ByteOrder.LITTLE_ENDIAN);
        out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(given[2])));
        double first = pass(app, bytes.asLongBuffer(), true), least = Double.MAX_VALUE;
        out.close();
        for (int again = 0; again < 2 && first < Double.parseDouble(given[3]); again++)
            least = Math.min(least, pass(app, bytes.asLongBuffer(), false));
        System.out.println("took " + count + " " + first + " " + (least < Double.MAX_VALUE ? least : -1));
        System.exit(0);
    }
}
"""


def missing() -> str:
    """Why it cannot be run here; empty if it can."""
    if importlib.util.find_spec("PySiddhi") is None:
        return "Siddhi is not installed: pip install PySiddhi"
    if not (_jars() / "siddhi-core-5.1.7.jar").exists():
        return f"PySiddhi has no siddhi-core-5.1.7.jar in {_jars().name}"
    if shutil.which("javac") is None:
        return "Siddhi needs a JDK (17), and there is no javac"
    return ""


def _jars() -> Path:
    found = importlib.util.find_spec("__PySiddhiProxy")
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places or ["."]))) / "target" / "lib"


def app(pattern: Pattern) -> str:
    """The query in Siddhi's language: a window join for each symbol after the first.

    >>> from piestream.relations import Relation
    >>> print(app(Pattern(2, ((0, 1, Relation.MEETS),), window=9)).splitlines()[0])
    define stream Runs (symbol long, k long, ts long, te long);
    """
    lines = ["define stream Runs (symbol long, k long, ts long, te long);"]
    for symbol in range(pattern.n_symbols):
        lines.append(
            f"from Runs[symbol == {symbol}L] select k, ts as ts{symbol}, te as te{symbol}, te as last "
            f"insert into S{symbol};"
        )
    lines += _joins(pattern)
    starts = ", ".join(f"ts{symbol}" for symbol in range(pattern.n_symbols))
    first = _extreme([f"ts{symbol}" for symbol in range(pattern.n_symbols)], "<")
    source = f"J{pattern.n_symbols - 1}" if pattern.n_symbols > 1 else "S0"
    lines.append(
        f"from {source}[last - {first} <= {pattern.window}L] select last as report, {starts} "
        "insert into Found;"
    )
    return "\n".join(lines)


def _joins(pattern: Pattern) -> Iterator[str]:
    """Each joins what has been found of the symbols before it with the intervals of one more."""
    kept = f"#window.externalTime(last, {max(pattern.window, 1)} milliseconds)"
    joined = [0]
    for at, (new, constraints) in enumerate(join_order(pattern)):
        side = {new: "y"}
        conditions = ["x.k == y.k"]
        for x, y, relations in constraints:
            text = any_of(relations, "#x", "#y").replace(" = ", " == ")
            for of, symbol in (("#x", x), ("#y", y)):
                for name in SIDES:
                    text = text.replace(f"{of}.{name}", f"{side.get(symbol, 'x')}.{name}{symbol}")
            for of_x, of_y, sign in comparisons(widened(relations)):
                left, right = (
                    f"{side.get(symbol, 'x')}.{SIDES[end]}{symbol}"
                    for symbol, end in ((x, of_x), (y, of_y))
                )
                conditions.append(f"{left} {'==' if sign == '=' else sign} {right}")
            conditions.append(f"({text})")
        columns = [f"x.{name}{symbol} as {name}{symbol}" for symbol in joined for name in SIDES]
        columns += [f"y.{name}{new} as {name}{new}" for name in SIDES]
        source = f"J{at}" if at else "S0"
        yield (
            f"from {source}{kept} as x join S{new}{kept} as y on {' and '.join(conditions)} "
            f"select x.k as k, {', '.join(columns)}, "
            f"ifThenElse(x.last > y.last, x.last, y.last) as last insert into J{at + 1};"
        )
        joined.append(new)


def _extreme(values: list[str], sign: str) -> str:
    """The least, or the most, of several values."""
    found = values[0]
    for value in values[1:]:
        found = f"ifThenElse({found} {sign} {value}, {found}, {value})"
    return found


def matcher(pattern: Pattern, *, keep: bool = True) -> Matcher:
    """The query in a Java process; a match's report is the last of its ends."""
    if reason := missing():
        raise FileNotFoundError(reason)
    pattern.without_precise("Siddhi")
    text = app(pattern)

    def match(given: Tables) -> Result:
        rows = pl.concat(
            table.select(pl.lit(symbol, pl.Int64).alias("symbol"), "k", "ts", "te")
            for symbol, table in enumerate(interval_rows(given, pattern))
        ).sort("te", maintain_order=True)
        with TemporaryDirectory() as temporary:
            program, query, events, out = (
                Path(temporary, name) for name in ("Run.java", "app", "events", "out")
            )
            program.write_text(_PROGRAM)
            query.write_text(text)
            rows.to_numpy().astype("<i8").tofile(events)
            line = ["java", f"-Xmx{_HEAP}", "-cp", str(_jars() / "*"),
                    *map(str, (program, query, events, out, _REPEATED))]  # fmt: skip
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            answer = done.stdout.rpartition("took ")[2].split()
            if done.returncode or len(answer) != 3:
                raise RuntimeError(f"Siddhi failed:\n{done.stderr[-2000:]}")
            found = np.fromfile(out, ">i8").astype(np.int64).reshape(-1, 1 + pattern.n_symbols)
        count, first, again = int(answer[0]), float(answer[1]), float(answer[2])
        return Result(
            found if keep else found[:0], count, {"events": given.events},
            own_seconds=first, own_warm_seconds=again if again >= 0 else None,
        )  # fmt: skip

    return Matcher(match, tables(pattern))
