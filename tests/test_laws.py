"""The laws: what every engine must keep on every query and every stream.

Most of them hold of many cases of a query at once, see `tests.many_of_one_stream`. A failure prints the
scenario, or its case that is wrong. ``python -m tests.shrink SEED ENGINE`` makes it small and writes it to a
case folder; ``many:SEED`` where it has many cases, ``sequence:SEED`` and the like of another draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

from piestream.errors import SchemaError
from piestream.language.distances import normalized
from piestream.language.parts import Aggregate, Constraint, DurationOf, Emit, Endpoint, RelationOf
from piestream.relations import ALL_NAMES
from tests import engines, oracle
from tests.clock import Clock
from tests.engines import ENGINES, Rows, by_partition, first_difference, parse, run
from tests.many_of_one_stream import BATCHES, DRAWS, cases_for, many_cases, of_partition
from tests.mixed import mixed
from tests.pairs import features_of, not_met, pairs_met
from tests.randoms import scenario, scenarios
from tests.scenario import Clause, Definition, Scenario
from tests.truth import column

#: The laws that compare an engine with itself need not be tried on every one of them.
SOME = ("oracle", "frame", "event", "disordered restored")
#: The most rows that a message shows.
_SHOWN = 250


def matches_of(engine: str, drawn: Scenario) -> Rows:
    """What an engine says of a scenario; the plan depends on the scenario's name alone."""
    query = drawn.query() if engine == "oracle" else parse(drawn.text())
    rows, _ = run(engine, query, drawn.stream, Random(f"{drawn.name} {engine}"))
    return rows


def check(engine: str, drawn: Scenario, expected: Rows, found: Rows) -> None:
    """Fails with everything that is needed to see it again."""
    if (of := first_difference(expected, found, drawn.keys)) is not None:
        pytest.fail(report(engine, drawn, of[1], of[0]), pytrace=False)


def report(engine: str, drawn: Scenario, why: str, key: tuple[Any, ...] | None = None) -> str:
    """A self-contained reproduction of a failure; of many rows only those of the partition that is wrong."""
    if len(drawn.rows) > _SHOWN:
        shown = drawn.text() if key is None else of_partition(drawn, key)
        return f"\n{engine} on {drawn.name}, of {len(drawn.rows)} rows:\n{shown}\n{why}\n"
    plan: object = None
    if engine != "oracle":
        rng = Random(f"{drawn.name} {engine}")
        plan = engines.draw(engine, drawn.stream, rng) if engine != "frame" else "query.run"
    return f"\n{engine} on {drawn}\nplan = {plan}\n{why}\n"


# Against the oracle


@pytest.mark.parametrize(
    ("draw", "share"), [("times", 1), *((name, 5) for name in DRAWS if name != "times")]
)
def test_every_way_in_says_what_the_oracle_says(draw: str, share: int, seeds: list[int]) -> None:
    for seed in seeds[: len(seeds) // share]:
        for engine in (name for name in ENGINES if name != "oracle"):
            _agrees(engine, DRAWS[draw](seed))
            if engine in BATCHES:
                _agrees(engine, many_cases(seed, draw))


def _agrees(engine: str, drawn: Scenario) -> None:
    try:
        found = matches_of(engine, drawn)
    except Exception as error:
        error.add_note(report(engine, drawn, f"{type(error).__name__}: {error}"))
        raise
    check(engine, drawn, drawn.expected(), found)


@settings(max_examples=30, deadline=None)
@given(scenarios())
def test_frames_say_what_the_oracle_says_wherever_hypothesis_looks(drawn: Scenario) -> None:
    check("frame", drawn, drawn.expected(), matches_of("frame", drawn))


def test_the_parser_says_what_the_scenario_says(seeds: list[int]) -> None:
    for seed in seeds:
        drawn = mixed(seed) if seed % 8 == 3 else scenario(seed)
        query, wanted = parse(drawn.text()), drawn.query()
        for part in (
            "constraints",
            "within",
            "windows",
            "returns",
            "partition_by",
            "streams",
            "emit",
            "limits",
            "absences",
        ):
            found, expected = getattr(query, part), getattr(wanted, part)
            if part == "constraints":
                found, expected = set(found), {_in_one_form(c) for c in expected}
            if part == "absences":
                found = [(one.symbol, set(one.constraints)) for one in found]
                expected = [
                    (one.symbol, {_in_one_form(c) for c in one.constraints}) for one in expected
                ]
            assert found == expected, f"{part} of\n{drawn.text()}"
        for one in query.symbols:
            for other in query.symbols:
                same = drawn.truth[one.name] == drawn.truth[other.name]
                assert (one.predicate == other.predicate) is same, drawn.text()


def _in_one_form(constraint: Constraint) -> Constraint:
    x, y = constraint.x, constraint.y
    return replace(constraint, distances=normalized(x, y, constraint.distances))


def test_the_scenarios_are_worth_trying() -> None:
    """If most streams had no match, the laws would hold of an engine that never finds one."""
    drawn = [s if s.where is None else s.having(where=None) for s in map(scenario, range(200))]
    assert sum(bool(one.expected()) for one in drawn) > 120
    counting = [one for one in drawn if any(d.counts_events for d in one.definitions)]
    assert sum(bool(one.expected()) for one in counting) > 20
    apart = [one for one in drawn if any(clause.distance for clause in one.clauses)]
    assert sum(bool(one.expected()) for one in apart) > 20
    waiting = [one for one in drawn if one.absences]
    assert sum(bool(one.expected()) for one in waiting) > 9
    windowed = [one for one in drawn if one.windows]
    assert sum(bool(one.expected()) for one in windowed) > 15
    assert {one.emit for one in drawn} == set(Emit)
    assert {len(one.symbols) for one in drawn} == {1, 2, 3, 4, 5, 6}
    named = {name for one in drawn for clause in one.clauses for name in clause.names}
    assert len(named) == 15
    returned = {type(item) for one in drawn for item in one.returns}
    assert returned == {Aggregate, Endpoint, RelationOf, DurationOf}


def test_what_a_query_can_say_is_mixed() -> None:
    """Few seeds leave few pairs out; ``python -m tests.pairs`` says which some thousand leave out."""
    drawn = [mixed(seed) for seed in range(3, 400, 8)]
    met = pairs_met(features_of(one.text()) for one in drawn if one.had_matches)
    things = [one for one, other in met if one == other]
    assert len(things) >= 24, things
    assert len(not_met(met)) < len(things) * (len(things) - 1) / 2 / 2.5, not_met(met)


# When rows come


def test_a_row_comes_with_the_event_that_makes_it_known(seeds: list[int]) -> None:
    """Pushed one by one in order of time, every event brings the rows of its own moment."""
    for seed in seeds:
        drawn = cases_for("event", seed)
        if drawn.ties == "last":
            continue  # an event is known only when no other can take its place
        plan = replace(engines.draw("event", drawn.stream, Random(seed)), typed=True)
        batches = engines.play(parse(drawn.text()), drawn.stream, plan)
        arrived = [drawn.rows[position]["ts"] for position in plan.order]
        for number, rows in enumerate(batches):
            for row in rows:
                at = row.get("detected_at", row.get("completed_at"))
                # A silence is over, at the latest, with the first event after its end.
                due = next((k for k, time in enumerate(arrived) if time >= at), len(arrived))
                if at not in arrived:
                    due = next((k for k, time in enumerate(arrived) if time > at), len(arrived))
                assert number in (due, *_same_time(arrived, due)), report(
                    "event", drawn, f"{row} came with push {number}, not {due}"
                )


def _same_time(arrived: list[int], due: int) -> Iterator[int]:
    """Events of one moment: which partition's comes first is chance; a silence needs a later one."""
    if due == len(arrived):
        return
    following = [k for k, time in enumerate(arrived) if time > arrived[due]]
    yield from (k for k, time in enumerate(arrived) if time == arrived[due])
    yield from following[:1]


def test_types_that_come_up_late_change_nothing_or_are_asked_for(seeds: list[int]) -> None:
    """An event whose value is missing does not tell the type of its column."""
    for seed in seeds:
        drawn = scenario(seed)
        if not any(None in row.values() for row in drawn.rows[:1]):
            continue
        plan = replace(engines.draw("event", drawn.stream, Random(seed)), typed=False)
        try:
            batches = engines.play(parse(drawn.text()), drawn.stream, plan)
        except SchemaError as error:
            if "schema=" in str(error):
                continue
            raise
        found = [row for rows in batches for row in rows]
        check("event", drawn, drawn.expected(), found)


def test_late_events_are_dropped_as_if_they_had_never_been(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for("session", seed)
        if drawn.ties != "error":
            continue
        rng = Random(seed)
        order = engines.arrival(drawn.stream, 8, rng)
        lateness, newest, kept = rng.randint(1, 4), None, []
        ticks = drawn.clock.beats(lateness)
        for position in order:
            time = drawn.rows[position]["ts"]
            if newest is None or time >= newest - ticks:
                kept.append(position)
            newest = time if newest is None else max(newest, time)
        pushes = engines.cuts(len(order), rng)
        plan = engines.Plan(order, pushes, lateness=lateness, on_late="drop")
        # Lateness is judged event by event, wherever the pushes are cut.
        batches = engines.play(parse(drawn.text()), drawn.stream, plan)
        found = [row for rows in batches for row in rows]
        rest = drawn.having(rows=tuple(drawn.rows[position] for position in sorted(kept)))
        check("session with late events", drawn, rest.expected(), found)


# What changes nothing


@pytest.mark.parametrize("engine", SOME)
def test_turning_constraints_round_changes_nothing(engine: str, few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for(engine, seed)
        drawn = drawn.having(name=f"{drawn.name} turned")
        clauses = tuple(_inverse(clause) for clause in drawn.clauses)
        absences = tuple((name, tuple(map(_inverse, of))) for name, of in drawn.absences)
        turned = drawn.having(clauses=clauses, absences=absences)
        check(engine, drawn, matches_of(engine, drawn), matches_of(engine, turned))


def _inverse(clause: Clause) -> Clause:
    """The same constraint, stated of y and x."""
    if clause.comparison is not None:
        return replace(clause, turned=not clause.turned)
    if clause.distance is not None:
        of_x, of_y, sign, beats = clause.distance
        mirrored = sign.translate(str.maketrans("<>", "><"))
        less = tuple(-number for number in reversed(beats))
        return replace(clause, x=clause.y, y=clause.x, distance=(of_y, of_x, mirrored, less))
    names = tuple(ALL_NAMES[-1 - ALL_NAMES.index(name)] for name in clause.names)
    return replace(clause, x=clause.y, y=clause.x, names=names)


@pytest.mark.parametrize("engine", SOME)
def test_the_order_of_clauses_and_definitions_changes_nothing(
    engine: str, few_seeds: list[int]
) -> None:
    for seed in few_seeds:
        drawn = cases_for(engine, seed)
        rng = Random(seed)
        # RETURN is written out: left out, its columns follow the definitions.
        drawn = drawn.having(returns=drawn.query().returns, name=f"{drawn.name} shuffled")
        clauses = tuple(rng.sample(drawn.clauses, len(drawn.clauses)))
        definitions = tuple(rng.sample(drawn.definitions, len(drawn.definitions)))
        absences = tuple(rng.sample(drawn.absences, len(drawn.absences)))
        other = drawn.having(clauses=clauses, definitions=definitions, absences=absences)
        check(engine, drawn, matches_of(engine, drawn), matches_of(engine, other))


def test_a_partition_does_not_know_of_the_others(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for("frame", seed)
        if not drawn.rows:
            continue
        query, end = parse(drawn.text()), max(row["ts"] for row in drawn.rows)
        together = by_partition(matches_of("frame", drawn), drawn.keys)
        for key, rows in by_partition([dict(row) for row in drawn.rows], drawn.keys).items():
            alone = drawn.having(rows=tuple(rows)).stream
            session = query.open(ties=drawn.ties)
            found = engines.plain(session.push(alone.frame()), alone)
            # Time is known up to the largest timestamp of all partitions.
            found += engines.plain(session.advance(alone.clock.native(end)), alone)
            found += engines.plain(session.close(), alone)
            check(f"session of partition {key}", drawn, together.get(key, []), found)


@pytest.mark.parametrize("engine", SOME)
def test_shifting_time_changes_nothing_else(engine: str, few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for(engine, seed)
        drawn = drawn.having(name=f"{drawn.name} shifted")
        by = Random(seed).choice((-7, 1, 1_000)) * max(1, drawn.clock.beats(1))
        rows = tuple({**row, "ts": row["ts"] + by} for row in drawn.rows)
        found = _moved(drawn, matches_of(engine, drawn.having(rows=rows)), by, 1)
        check(engine, drawn, matches_of(engine, drawn), found)


@pytest.mark.parametrize("engine", SOME)
@pytest.mark.parametrize(
    "clock",
    [Clock("int", scale=3_000), Clock("ns", "s"), Clock("int-ms", "h"), Clock("ms", "min")],
    ids=lambda clock: f"{clock.kind}-{clock.unit or clock.scale}",
)
def test_scaling_the_unit_of_time_changes_nothing_else(
    engine: str, clock: Clock, few_seeds: list[int]
) -> None:
    for seed in few_seeds:
        drawn = cases_for(engine, seed)
        if drawn.clock.kind != "int" or drawn.clock.scale != 1:
            continue
        drawn = drawn.having(name=f"{drawn.name} scaled")
        beat = clock.beats(1)
        rows = tuple({**row, "ts": row["ts"] * beat} for row in drawn.rows)
        other = matches_of(engine, drawn.having(rows=rows, clock=clock))
        found = _moved(drawn, other, 0, beat)
        check(engine, drawn, matches_of(engine, drawn), found)


def _moved(drawn: Scenario, rows: Rows, first: int, beat: int) -> Rows:
    """Rows with their times carried back, and their lengths of time divided."""
    times = {"detected_at", "completed_at"}
    returns = drawn.query().returns
    times |= {item.alias for item in returns if isinstance(item, Endpoint)}
    lengths = {item.alias for item in returns if isinstance(item, DurationOf)}
    moved = []
    for row in rows:
        row = dict(row)
        for name, value in row.items():
            if value is not None and name in times:
                row[name] = (value - first) // beat
            elif value is not None and name in lengths:
                row[name] = value // beat
        moved.append(row)
    return moved


# Triggers and completions


@pytest.mark.parametrize("engine", SOME)
def test_a_completion_agrees_with_its_trigger(engine: str, few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for(engine, seed)
        drawn = drawn.reporting_both().having(returns=(), name=f"{drawn.name} both")
        triggers: dict[tuple[Any, ...], dict[str, Any]] = {}
        completed: set[tuple[Any, ...]] = set()
        ends = [f"{name}_te" for name in drawn.symbols]
        for row in matches_of(engine, drawn):
            key = tuple(row[name] for name in drawn.keys)
            key += tuple(row[f"{name}_ts"] for name in drawn.symbols)
            if row["phase"] == "trigger":
                assert key not in triggers, report(engine, drawn, f"triggered twice: {row}")
                triggers[key] = row
                continue
            assert key in triggers, report(engine, drawn, f"completed before triggered: {row}")
            assert key not in completed, report(engine, drawn, f"completed twice: {row}")
            completed.add(key)
            for end in ends:
                known = triggers[key][end]
                assert row[end] is not None, report(engine, drawn, f"{end} unknown: {row}")
                assert known in (None, row[end]), report(engine, drawn, f"{end} changed: {row}")


@pytest.mark.parametrize("engine", SOME)
def test_both_without_its_completions_is_trigger(engine: str, few_seeds: list[int]) -> None:
    for seed in few_seeds:
        both = cases_for(engine, seed)
        both = both.reporting_both().having(name=f"{both.name} trigger")
        only = both.having(emit=Emit.TRIGGER)
        found = [
            {name: value for name, value in row.items() if name != "phase"}
            for row in matches_of(engine, both)
            if row["phase"] == "trigger"
        ]
        check(engine, only, matches_of(engine, only), found)


# Types


def test_an_empty_result_has_the_same_columns_and_types(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = cases_for("frame", seed)
        query, frame = parse(drawn.text()), drawn.stream.frame()
        full, empty = query.run(frame, ties=drawn.ties), query.run(frame.clear())
        assert full.schema == empty.schema, report("frame", drawn, f"{full.schema}")
        columns = list(empty.columns)
        assert columns[: len(drawn.keys)] == list(drawn.keys)
        for name in drawn.keys:
            assert empty.schema[name] == frame.schema[name]
        at = "completed_at" if drawn.emit is Emit.COMPLETION else "detected_at"
        assert empty.schema[at] == frame.schema["ts"]


def test_ties_are_errors_that_name_the_key_and_the_time() -> None:
    drawn = Scenario(
        definitions=(Definition("a", column("p")),),
        clauses=(),
        rows=tuple({"ts": at, "k": "one", "p": True} for at in (41, 42, 42)),
        schema={"ts": pl.Int64(), "k": pl.String(), "p": pl.Boolean()},
        keys=("k",),
    )
    with pytest.raises(oracle.TieError):
        drawn.expected()
    query = parse(drawn.text())
    session = query.open()
    for told_to in (query.run, session.push):
        with pytest.raises(Exception, match=r"one(?s:.)*42|42(?s:.)*one"):
            told_to(drawn.stream.frame())
