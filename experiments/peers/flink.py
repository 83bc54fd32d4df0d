"""MATCH_RECOGNIZE in Apache Flink, an engine that others wrote, in its mini cluster.

``apache-flink`` wants older versions of what this project uses, so it lives in an environment of its own:
``PIESTREAM_FLINK`` names its Python interpreter (measured with 2.3.0, which needs Java 17).

A row pattern gives at most one match for each row at which it begins, so it can say only what has one
partner: chains in which each interval is followed by the one that holds when it ends, which is what
*meets*, *overlaps*, *starts* and *during* say. It reads the events that change a symbol, with the start of
each symbol's run: a match begins where the first interval ends, and goes on from end to end. (Partitions
lie apart in time, and an interval ends before the next one begins, so no row pattern spans two.)

The clock is the CPU time of Flink's Java process from the job's submission to the last match: reading
events from a CSV file and writing matches to one are inside. The first job is the cold run, the least of
two more in the same cluster the warm one.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from experiments.peers.forms import changes
from experiments.peers.parts.derivers import Masks
from experiments.peers.parts.interval_sql import any_of
from experiments.peers.pattern import Ints, Pattern, Result, UnsupportedPatternError
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["VARIABLE", "matcher", "missing", "row_pattern"]

#: The environment variable that names the interpreter of an environment with ``apache-flink``.
VARIABLE = "PIESTREAM_FLINK"
#: A first job of more CPU seconds than this is not repeated.
_REPEATED = 30.0

#: What is known where x ends and y holds; ``{t}`` is then.
_HOLDS = {
    Relation.MEETS: "{y} = {t}",
    Relation.OVERLAPS: "({x} < {y} AND {y} < {t})",
    Relation.STARTS: "{x} = {y}",
    Relation.DURING: "{y} < {x}",
}

_PROGRAM = """
import os, sys, time
from pathlib import Path
from pyflink.table import EnvironmentSettings, TableEnvironment

columns, sql, events, out, most = sys.argv[1:]
environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
environment.get_config().set("parallelism.default", "1")
environment.execute_sql(f'''
    CREATE TABLE events ({columns}, rt AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR rt AS rt)
    WITH ('connector' = 'filesystem', 'path' = '{events}', 'format' = 'csv')''')
names = sql.partition("\\n")[0].split()
sql = sql.partition("\\n")[2]

def cpu():
    total = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")

took = []
for number in range(3):
    environment.execute_sql(f'''
        CREATE TABLE found{number} ({", ".join(f"{name} BIGINT" for name in names)})
        WITH ('connector' = 'filesystem', 'path' = '{out}{number}', 'format' = 'csv')''')
    before = cpu()
    environment.execute_sql(f"INSERT INTO found{number} {sql}").wait()
    took.append(cpu() - before)
    if took[0] > float(most):
        break
print("took", took[0], min(took[1:], default=-1))
"""


def missing() -> str:
    """Why it cannot be run here; empty if an interpreter is named."""
    return "" if os.environ.get(VARIABLE) else (
        f"no interpreter of an environment with apache-flink is named in {VARIABLE}"
    )  # fmt: skip


def row_pattern(pattern: Pattern) -> str:
    """The MATCH_RECOGNIZE over ``events``: a row for each match.

    >>> print(row_pattern(Pattern(2, ((0, 1, Relation.MEETS),), 9)))
    SELECT report, ts0, ts1 FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt
    MEASURES E1.t AS report, E0.s0 AS ts0, E1.s1 AS ts1
    ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
    PATTERN (E0 F1* E1)
    DEFINE E0 AS E0.e0 = 1 AND E0.h1 = 1 AND (E0.s1 = E0.t),
      F1 AS F1.e1 = 0,
      E1 AS E1.e1 = 1) WHERE report - ts0 <= 9 AND report - ts1 <= 9
    """
    everyone = range(pattern.n_symbols)
    neighbours = {(x, y): relations for x, y, relations in pattern.constraints}
    defined = []
    for symbol in everyone:
        row = f"E{symbol}"
        conditions = [f"{row}.e{symbol} = 1", *_lasts(pattern, symbol)]
        following = neighbours.pop((symbol, symbol + 1), None)
        if following is not None:
            conditions += [f"{row}.h{symbol + 1} = 1", _partner(following, symbol)]
        elif symbol + 1 < pattern.n_symbols:
            raise UnsupportedPatternError(
                "a row pattern of Flink gives one match for each beginning: only chains of symbols in "
                "their order can be said"
            )
        if symbol:
            defined.append(f"F{symbol} AS F{symbol}.e{symbol} = 0")
        defined.append(f"{row} AS {' AND '.join(conditions)}")
    # What is said of symbols that are not neighbours is known when both have ended.
    others = [
        _over_measures(any_of(relations, f"s{x}", f"s{y}"))
        for (x, y), relations in neighbours.items()
    ]
    starts = ", ".join(f"ts{symbol}" for symbol in everyone)
    ends = [f"E{symbol}.t AS te{symbol}" for symbol in everyone] if others else []
    measures = ", ".join([
        f"E{pattern.n_symbols - 1}.t AS report",
        *(f"E{symbol}.s{symbol} AS ts{symbol}" for symbol in everyone), *ends,
    ])  # fmt: skip
    rows = " ".join(f"F{symbol}* E{symbol}" if symbol else "E0" for symbol in everyone)
    where = [f"report - ts{symbol} <= {pattern.window}" for symbol in everyone] + others
    return (
        f"SELECT report, {starts} FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt\n"
        f"MEASURES {measures}\nONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW\nPATTERN ({rows})\nDEFINE "
        + ",\n  ".join(defined)
        + f") WHERE {' AND '.join(where)}"
    )


def _lasts(pattern: Pattern, symbol: int) -> list[str]:
    least, most = pattern.at_least[symbol], pattern.at_most[symbol]
    lasted = f"E{symbol}.t - E{symbol}.s{symbol}"
    bounds = [f"{lasted} >= {least}"] if least else []
    return bounds + ([f"{lasted} <= {most}"] if most is not None else [])


def _partner(relations: Relation, symbol: int) -> str:
    """The relations of a symbol to the next one, where the first ends and the other holds."""
    row = f"E{symbol}"
    texts = []
    for relation in Relation:
        if not relation & relations:
            continue
        if relation not in _HOLDS:
            raise UnsupportedPatternError(
                "a row pattern of Flink gives one match for each beginning: between neighbours only "
                "meets, overlaps, starts and during have one partner"
            )
        x, y, t = f"{row}.s{symbol}", f"{row}.s{symbol + 1}", f"{row}.t"
        texts.append(_HOLDS[relation].format(x=x, y=y, t=t))
    return f"({' OR '.join(texts)})"


def _over_measures(text: str) -> str:
    """Columns of tables, ``s0.te``, as measures, ``te0``."""
    for symbol in range(64):
        text = text.replace(f"s{symbol}.ts", f"ts{symbol}").replace(f"s{symbol}.te", f"te{symbol}")
    return text


def _events(given: Masks, symbols: int) -> pl.DataFrame:
    """A row for each change: of each symbol, whether it holds, whether it ends, and its run's start."""
    times, masks, _ = given
    columns: dict[str, Ints] = {"k": np.zeros_like(times), "t": times}
    for symbol in range(symbols):
        holds = masks >> symbol & 1
        before = np.append(0, holds[:-1])[: len(holds)]
        began = np.maximum.accumulate(np.where(holds > before, np.arange(len(times)), 0))
        columns |= {f"h{symbol}": holds, f"e{symbol}": (holds < before).astype(np.int64)}
        columns[f"s{symbol}"] = times[began] if len(times) else times
    return pl.DataFrame(columns)


def matcher(pattern: Pattern, *, keep: bool = True) -> Matcher:
    """The row pattern as a job of Flink; a match's report is the last of its ends."""
    if reason := missing():
        raise FileNotFoundError(reason)
    pattern.without_precise("Flink")
    names = ["report", *(f"ts{symbol}" for symbol in range(pattern.n_symbols))]
    sql = " ".join(names) + "\n" + row_pattern(pattern)

    def match(given: Masks) -> Result:
        rows = _events(given, pattern.n_symbols)
        with TemporaryDirectory() as temporary:
            events, out = Path(temporary, "events.csv"), Path(temporary, "found")
            rows.write_csv(events, include_header=False)
            columns = ", ".join(f"{name} BIGINT" for name in rows.columns)
            line = [os.environ[VARIABLE], "-c", _PROGRAM, columns, sql, str(events), str(out),
                    str(_REPEATED)]  # fmt: skip
            done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=temporary)
            answer = done.stdout.rpartition("took ")[2].split()
            if done.returncode or len(answer) != 2:
                raise RuntimeError(f"Flink failed:\n{done.stderr[-2000:]}")
            texts = [
                path.read_text() for path in sorted(Path(f"{out}0").rglob("*")) if path.is_file()
            ]
        lines = [[int(value) for value in line.split(",")] for line in "".join(texts).splitlines()]
        found = np.array(lines, np.int64).reshape(-1, len(names))
        first, again = map(float, answer)
        return Result(
            found if keep else found[:0], len(found), {"events": given.events},
            own_seconds=first, own_warm_seconds=again if again >= 0 else None,
        )  # fmt: skip

    return Matcher(match, changes(pattern))
