"""The methods that are measured: piestream and its peers, each behind one signature.

``PEERS[name].run(pattern, times, masks, **options)`` gives a :class:`Result`. The streaming ones
are Numba-compiled loops over NumPy arrays, as the engine itself is, so that algorithms are
compared and not languages.

>>> import numpy as np
>>> from piestream.relations import Relation
>>> pattern = Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100)
>>> times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
>>> for name in ("piestream", "tpstream", "piestream-paper", "iseq"):
...     print(name, PEERS[name].run(pattern, times, masks).matches.tolist())
piestream [[3, 1, 2]]
tpstream [[3, 1, 2]]
piestream-paper [[3, 1, 2]]
iseq [[4, 1, 2]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from experiments.peers import (
    duckdb_sql,
    flink,
    iseq,
    java,
    piestream,
    piestream_paper,
    polars_joins,
    siddhi,
    tpstream,
)
from experiments.peers.pattern import (
    Ints,
    Pattern,
    Result,
    UnsupportedPatternError,
    sorted_matches,
)
from experiments.peers.peer import BITS, FRAME, INPUTS, Matcher, Peer, Reports
from experiments.peers.trials import RULE, plans_of, quickest, run_of

if TYPE_CHECKING:
    from experiments.streams.cases import Case

__all__ = [
    "BITS",
    "FRAME",
    "INPUTS",
    "OURS",
    "PEERS",
    "Matcher",
    "Pattern",
    "Peer",
    "Reports",
    "Result",
    "UnsupportedPatternError",
    "prepared",
    "run",
    "sorted_matches",
    "title",
]

OURS = "piestream"

#: The table of methods: one line each.
PEERS: Mapping[str, Peer] = {
    OURS: Peer(
        "piestream", "this library: its detector on packed bits, `Query.run` on a raw frame",
        piestream.matcher, Reports.EARLIEST, ("#d62728", "o"), on_frame=piestream.on_frame,
    ),
    "tpstream": Peer(
        "TPStream, corrected",
        "TPStream's buffers, binary searches and cost model; an open interval is one more candidate, "
        "no powersets, durations, complete prefix groups",
        tpstream.corrected_matcher, Reports.EARLIEST, ("#1f77b4", "^"),
    ),
    "tpstream-published": Peer(
        "TPStream, as published",
        "its Algorithm 4 with powersets of open intervals, in the reading under which it is right",
        tpstream.published_matcher, Reports.RELATION, ("#17becf", "v"),
    ),
    "tpstream-printed": Peer(
        "TPStream, as printed", "its Algorithm 4 to the letter: its faults are counted, not its time",
        tpstream.printed_matcher, Reports.RELATION, ("#9edae5", "v"), exact=False,
    ),
    "piestream-paper": Peer(
        "PieStream's algorithm",
        "as its paper writes it: an automaton a relation, stepped at every event; stored pairs; "
        "left-deep hash joins",
        piestream_paper.matcher, Reports.RELATION, ("#2ca02c", "D"),
    ),
    "piestream-paper-changes": Peer(
        "PieStream's algorithm, changes only",
        "the same, its automata stepped only at events at which a predicate changes",
        piestream_paper.matcher, Reports.RELATION, ("#98df8a", "d"), {"skip_repeats": True},
    ),
    "iseq-naive": Peer(
        "ISEQ, nested loops",
        "finished intervals in order of their ends; nested loops over whole buffers",
        iseq.matcher, Reports.COMPLETION, ("#c5b0d5", "x"), {"form": "naive"},
    ),
    "iseq-ordered": Peer(
        "ISEQ, buffers in order",
        "nested loops over the buffers; a scan is over at the first entry that is too early",
        iseq.matcher, Reports.COMPLETION, ("#8c6bb1", "."), {"form": "ordered"},
    ),
    "iseq-indexed": Peer(
        "ISEQ, indexed",
        "the same with active instance stacks along the longest chain of ends",
        iseq.matcher, Reports.COMPLETION, ("#c5b0d5", "X"), {"form": "indexed"},
    ),
    "iseq": Peer(
        "ISEQ, begin punctuations",
        "the same, and starts are known when they happen: the index follows them too, and what they "
        "make hopeless is dropped",
        iseq.matcher, Reports.COMPLETION, ("#9467bd", "P"), {"form": "ibp"},
    ),
    "duckdb": Peer(
        "DuckDB, SQL joins",
        f"tables of intervals joined by inequalities, the whole stream at once. {RULE}: orders of joins "
        "(the planner's; as written; each step materialised) and of a key (by hash; or none, as "
        "partitions lie apart in time)",
        duckdb_sql.matcher, Reports.COMPLETION, ("#8c564b", "<"), streaming=False,
        plans=plans_of(duckdb_sql.ORDERS, duckdb_sql.KEYS),
    ),
    "duckdb-trigger": Peer(
        "DuckDB, SQL joins, triggers", "the same, with the earliest instants computed in SQL",
        duckdb_sql.matcher, Reports.EARLIEST, ("#c49c94", "<"), {"emit": "trigger"},
        streaming=False, plans=plans_of(duckdb_sql.ORDERS, duckdb_sql.KEYS),
    ),
    "polars": Peer(
        "Polars, inequality joins",
        "the same tables and the same rule: `join_where` in the order of the constraints or from the "
        "rarest symbol on, with the key or without",
        polars_joins.matcher, Reports.COMPLETION, ("#7f7f7f", ">"), streaming=False,
        plans=plans_of(polars_joins.ORDERS, polars_joins.KEYS),
    ),
    "java": Peer(
        "PieStream's program (Java)",
        "the authors' own, where `PIESTREAM_JAVA` names a built copy; it reads CSV inside its clock",
        java.matcher, Reports.UNKNOWN, ("#000000", "*"), {"keep": False},
        exact=False, streaming=False, missing=java.missing,
    ),
    "siddhi": Peer(
        "Siddhi 5.1.7, window joins",
        "an engine of others, where `PySiddhi` is installed: intervals in order of their ends, kept for the "
        "window and joined; in a Java process, by its own CPU clock",
        siddhi.matcher, Reports.COMPLETION, ("#e377c2", "h"), streaming=False,
        missing=siddhi.missing,
    ),
    "flink": Peer(
        "Flink 2.3, MATCH_RECOGNIZE",
        "an engine of others, where `PIESTREAM_FLINK` names an interpreter that has it: the events that "
        "change a symbol, in a mini cluster, by its Java process's CPU clock; chains of *meets*, "
        "*overlaps*, *starts* and *during* only",
        flink.matcher, Reports.COMPLETION, ("#bcbd22", "H"), streaming=False,
        missing=flink.missing,
    ),
}  # fmt: skip


def title(name: str) -> str:
    """What tables and figures call a method.

    >>> title("iseq")
    'ISEQ, begin punctuations'
    """
    return PEERS[name].title


def run(name: str, pattern: Pattern, times: Ints, masks: Ints, **options: Any) -> Result:
    """Run the method of that name."""
    if name not in PEERS:
        raise KeyError(f"no method is named {name!r}; there are {', '.join(PEERS)}")
    return PEERS[name].run(pattern, times, masks, **options)


def prepared(case: Case, name: str, form: str = BITS, **options: Any) -> Callable[[], Result]:
    """A run of a method on a case, all done that is not to be measured.

    That is the pattern, the code (by a run over a short stream), the choice among the method's plans,
    and with packed bits the stream in the form in which the method takes it.
    """
    peer = PEERS[name]
    short = case.head(1_000)
    if form == FRAME and peer.on_frame is not None:
        peer.on_frame(short)()
        return peer.on_frame(case)
    if peer.plans is not None:
        options |= quickest(case, peer, form, options)
    matcher = peer.prepare(case.pattern, **options)
    if not peer.is_optional:  # a program of its own shares no code with another run
        run_of(matcher, short, form)()
    return run_of(matcher, case, form)
