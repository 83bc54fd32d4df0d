"""How a query is executed, in words: read off the compiled query, not kept beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

from piestream.automata import (
    DecisionPoint,
    compile_pair,
    decision_points,
    read_by_automaton,
)
from piestream.expressions.canonical import canonical_text
from piestream.expressions.durations import Duration
from piestream.expressions.syntax import Previous, Window, past_in
from piestream.language.emission import EmissionLimits
from piestream.language.model import Query
from piestream.language.parts import Condition, Constraint, Emit, Source, Symbol
from piestream.language.printer import constraint_text, silence_text
from piestream.plan.conditions import join_key_texts
from piestream.plan.join_order import Step
from piestream.relations import ANY, Relation, names, said
from piestream.show.absences import absence_lines
from piestream.show.example import drawn_examples, possible_relations
from piestream.show.keeping import FROM_START, keep_lines, keep_times

if TYPE_CHECKING:
    import polars as pl

    from piestream.plan.binding import Binding

__all__ = ["Explanation", "explain"]

_WORD_BYTES = 8
#: From so many relations on, the list of the others is shorter.
_MANY = 9


@dataclass(frozen=True)
class Explanation:
    """How a query will be executed, before any event is seen. ``print`` it.

    ``sections`` holds titles and texts: the query, its predicates, what each constraint is decided
    by, what the constraints imply, an example, the join plan, and how large the state is.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9")
    >>> [title for title, _ in query.explain().sections]
    ['Query', 'Predicates', 'Constraints', 'Example', 'Join plan', 'State']
    """

    query: Query
    sections: tuple[tuple[str, str], ...]

    def section(self, title: str) -> str:
        """The text of one section, whatever the case of its title; KeyError if there is none.

        >>> import piestream as ps
        >>> query = ps.query(
        ...     "FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a starts; equals b WITHIN 9"
        ... )
        >>> print(query.explain().section("constraints"))
        a starts; equals b
          automaton of 4 states; partners by the pair index
          starts: decided at a.te
          equals: decided at a.te = b.te
        """
        titles = {known.upper(): text for known, text in self.sections}
        if title.upper() not in titles:
            raise KeyError(f"there is no section {title}; there are {', '.join(titles)}")
        return titles[title.upper()]

    def __str__(self) -> str:
        parts = []
        for title, text in self.sections:
            body = "\n".join(f"  {line}".rstrip() for line in text.splitlines())
            parts.append(f"{title.upper()}\n{body}\n")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def diagrams(self, format: Literal["mermaid", "dot"]) -> str:
        """The automaton of each constraint: Markdown with Mermaid diagrams, or DOT graphs.

        >>> import piestream as ps
        >>> query = ps.query("FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN a before b WITHIN 9")
        >>> print(query.explain().diagrams("dot"))
        // a before b: x is a, y is b
        digraph pair {
            rankdir=LR;
            label="x {before} y";
            node [shape=circle];
            start [shape=point];
            start -> S0;
            S0 -> S0 [label="O,I,Z,E"];
        }
        <BLANKLINE>
        """
        from piestream.show.diagrams import dot, mermaid

        if format not in ("mermaid", "dot"):
            raise ValueError(
                f"diagrams come as 'mermaid' or 'dot', not {format!r}; Graphviz makes pictures of "
                "the latter: dot -Tsvg"
            )
        parts = []
        for constraint in self.query.constraints:
            automaton = compile_pair(constraint.relations, _same(self.query, constraint))
            title = constraint_text(constraint)
            if format == "dot":
                parts.append(
                    f"// {title}: x is {constraint.x}, y is {constraint.y}\n{dot(automaton)}"
                )
            else:
                parts.append(f"### {title}\n\n```mermaid\n{mermaid(automaton)}```\n")
        return "\n".join(parts)


def explain(query: Query, schema: Mapping[str, pl.DataType] | None = None) -> Explanation:
    """How a query will be executed: predicates, automata, decision points, join plan, state.

    ``schema``, the columns of the input, only makes the size of the state exact: without it
    aggregates are assumed to be over floats.

    >>> import piestream as ps
    >>> q = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 3 PATTERN a WITHIN 9")
    >>> print(explain(q).section("Predicates"))
    1: x > 1
       a: valid once it is known to last 3
    """
    if query.rows is not None:
        from piestream.show.row_explanation import row_sections

        return Explanation(query, tuple(row_sections(query)))
    from piestream.show.stand_in import bound_to, bound_to_stand_in

    binding = bound_to_stand_in(query) if schema is None else bound_to(query, schema)
    sections = [("Query", str(query))]
    if query.is_combined:
        sections.append(("Streams", "\n".join(_streams(query))))
    if query.is_sequenced:
        sections.append(("Order", "\n".join(_order(query))))
    sections.append(("Predicates", "\n".join(_predicates(query))))
    if query.constraints:
        sections.append(("Constraints", "\n".join(_constraints(query))))
        implied = "\n".join(_implied(query))
        if implied:
            sections.append(("Implied", implied))
    if query.absences:
        sections.append(("Absences", "\n".join(absence_lines(query))))
    if query.where is not None:
        sections.append(("Where", "\n".join(_where(query.where, binding))))
    if query.limits:
        sections.append(("Left out", "\n".join(_left_out(query.limits))))
    drawn = drawn_examples(query)
    if drawn is not None:
        sections.append(("Example", drawn))
    sections.append(("Join plan", "\n".join(_plan(query, binding))))
    sections.append(("State", "\n".join(_state(query, binding))))
    return Explanation(query, tuple(sections))


def _left_out(limits: EmissionLimits) -> Iterator[str]:
    """Which matches are not given, each judged by those given before it."""
    if limits.once_per:
        listed = " and ".join(limits.once_per)
        yield f"ONCE PER: after a match, others with the same intervals of {listed}"
    if limits.no_overlap:
        yield "NO OVERLAP: what began before the last one given was reported"
    if limits.cooldown is not None:
        ticks = " ticks" * limits.cooldown.in_ticks
        yield f"COOLDOWN: what is reported within {limits.cooldown}{ticks} after one given"
    if limits.limit is not None:
        yield f"LIMIT: what follows after {limits.limit:,} of a partition, which is remembered for good"


def _same(query: Query, constraint: Constraint) -> bool:
    return query.same_predicate(query.symbol(constraint.x), query.symbol(constraint.y))


# -- streams -------------------------------------------------------------------------------------


def _streams(query: Query) -> Iterator[str]:
    """What each stream is, and when its rows are known."""
    for number, stream in enumerate(query.streams, 1):
        if stream.query is not None:
            known = "matches of a query, known at their completion"
            if stream.query.rows is not None:
                known = "matches of a row pattern, known when certain, the row behind them there"
            elif stream.is_known_late:
                known += ", which may be after their ends"
            yield f"{number}: {stream.name}, {known}"
            yield from (f"   {line}" for line in str(stream.query).splitlines())
        elif stream.silence is not None:
            longer = f"{stream.silence.longer_than}{' ticks' * stream.silence.longer_than.in_ticks}"
            yield (
                f"{number}: silences of {query.streams[stream.silence.of].name or 'the stream'} longer "
                f"than {longer}, each known {longer} after its start, once that has passed"
            )
        elif stream.is_ready_made:
            known = "each known at its end"
            if stream.known_at_start:
                known = "each known at its start"
            elif stream.id is not None:
                known = f"each known at its start if a row by {stream.id} says so, else at its end"
            yield f"{number}: {stream.name}, intervals from {stream.start} to {stream.end}, {known}"
        else:
            of = ", ".join(name for name in (stream.order_by, _second(stream)) if name)
            time = f", in order of {of}" if of else ""
            gap = f"; a silence of more than {stream.max_gap} ends intervals"
            past = f"; the archive {stream.path} has those of before" * stream.archive
            yield f"{number}: {stream.name}, events{time}{gap * (stream.max_gap is not None)}{past}"
    yield "rows of all wait in one buffer; an instant is worked on when the watermark has passed it"


def _second(stream: Source) -> str | None:
    """What orders the events of one time."""
    return "the rows" if stream.row_order else stream.sequence


def _order(query: Query) -> Iterator[str]:
    """What events of one time are."""
    for stream in query.streams:
        if stream.is_sequenced:
            of = f" of {stream.name}" * query.is_combined
            yield f"events{of} of one time come in the order of {_second(stream)}"
    yield from _turns(query)
    yield "starts and ends are events: relations ask which of two comes first, also at one time"
    yield "lengths, windows, gaps and distances measure time alone"
    if any(stream.is_ready_made and stream.silence is None for stream in query.streams):
        yield "rows of intervals start and end before all events of that time"
    if any(stream.silence is not None for stream in query.streams):
        yield "a silence becomes known behind all events of its deadline"


def _turns(query: Query) -> Iterator[str]:
    """Which streams come first at one time, where some are in the order of their rows."""
    of_turn: dict[int, list[str]] = {}
    for stream, turn in zip(query.streams, query.turns, strict=True):
        if stream.is_sequenced:
            of_turn.setdefault(turn, []).append(str(stream.name))
    if len(of_turn) > 1:
        named = [" and ".join(of_turn[turn]) for turn in sorted(of_turn)]
        yield f"at one time the events of {', then those of '.join([f'{named[0]} come first', *named[1:]])}"


# -- predicates and symbols ------------------------------------------------------------------------


def _predicates(query: Query) -> Iterator[str]:
    """Each distinct predicate once, as it is evaluated, and the symbols that it is for."""
    distinct = dict.fromkeys((symbol.stream, symbol.predicate) for symbol in query.symbols)
    for number, (stream, predicate) in enumerate(distinct, 1):
        source = query.streams[stream]
        text = predicate.qualified(str(source.name)) if stream else predicate
        yield f"{number}: {text if source.silence is None else silence_text(query, source.silence)}"
        for symbol in query.symbols:
            if (symbol.stream, symbol.predicate) != (stream, predicate):
                continue
            yield f"   {symbol.name}: {_validity(query, symbol)}"
            if symbol.bridging is not None:
                yield (
                    f"   runs that lie at most {symbol.bridging} apart are one interval, "
                    "whose end is known when no other can follow in time"
                )


def _validity(query: Query, symbol: Symbol) -> str:
    """When an interval of a symbol is valid."""
    least, most = symbol.at_least, symbol.at_most
    fewest, most_events = symbol.at_least_events, symbol.at_most_events
    if symbol not in query.present:
        bounds = [f"at least {least}"] * bool(least) + [f"at most {most}"] * bool(most)
        told = [f"lasts {' and '.join(bounds)}"] if bounds else []
        counts = [f"at least {fewest}"] * (fewest is not None)
        counts += [f"at most {most_events}"] * (most_events is not None)
        told += [f"has {' and '.join(counts)} events"] if counts else []
        return "absent" + (f": only what {' and '.join(told)} counts" if told else "")
    if query.emit is Emit.COMPLETION or most is not None or most_events is not None:
        bounds = [f"at least {least}"] * bool(least) + [f"at most {most}"] * bool(most)
        told = [f"it lasted {' and '.join(bounds)}"] if bounds else []
        counts = [f"at least {fewest}"] if fewest is not None else []
        counts += [f"at most {most_events}"] if most_events is not None else []
        told += [f"it had {' and '.join(counts)} events"] if counts else []
        return "valid at its end" + (f", if {' and '.join(told)}" if told else "")
    told = [f"to last {least}"] if least is not None else []
    told += [f"to have {fewest} events"] if fewest is not None else []
    source = query.streams[symbol.stream]
    if not told and source.is_ready_made and not source.known_at_start:
        return "valid once it is known"
    return f"valid once it is known {' and '.join(told)}" if told else "valid from its start"


# -- constraints -----------------------------------------------------------------------------------


def _constraints(query: Query) -> Iterator[str]:
    for constraint in query.constraints:
        same = _same(query, constraint)
        bridged = [n for n in (constraint.x, constraint.y) if query.symbol(n).bridging is not None]
        if bridged:
            yield constraint_text(constraint)
            told = f"{' and '.join(bridged)}, which may have ended or go on"
            yield f"  no automaton; decided from what is known of the ends of {told}"
            yield from (f"  {line}" for line in _distances(constraint, bridged))
            continue
        sources = {n: query.stream_of(n) for n in (constraint.x, constraint.y)}
        ready = [n for n, source in sources.items() if source.is_ready_made]
        late = [n for n in ready if not sources[n].known_at_start]
        if late:
            yield constraint_text(constraint)
            yield (
                "  no automaton; decided from what is known of the endpoints, from the instant on at "
                f"which {' and '.join(late)} {'are' if len(late) > 1 else 'is'} known"
            )
            yield from (f"  {line}" for line in _distances(constraint))
            continue
        automaton = compile_pair(constraint.relations, same)
        pairs = read_by_automaton(constraint.relations, same)
        yield constraint_text(constraint)
        found_by = []
        if constraint.distances:
            found_by.append(
                "no automaton; decided from the endpoints; undecided pairs are kept, too"
            )
        elif pairs and ready:
            found_by.append("no automaton; decided from the endpoints")
        elif pairs:
            states = "1 state" if automaton.states == 1 else f"{automaton.states} states"
            found_by.append(f"automaton of {states}; partners by the pair index")
        ranged = constraint.relations & ~pairs
        if ranged and not constraint.distances:
            lead = "" if pairs else "no automaton; "
            found_by.append(f"{lead}{' and '.join(names(ranged))} by a range of the endpoint index")
        yield "  " + "; ".join(found_by)
        if same:
            yield f"  {constraint.x} and {constraint.y} have one predicate: never one interval"
        for point in decision_points(constraint.relations, same):
            yield f"  {_decided(point, constraint)}"
        yield from (f"  {line}" for line in _distances(constraint))


def _distances(constraint: Constraint, bridged: Collection[str] = ()) -> Iterator[str]:
    """When each distance is certain: an end that is not known is later than now.

    Where a bridged interval has ended is known later than that.
    """
    for distance in constraint.distances:
        ends = (distance.symbol, distance.which), (distance.other, distance.other_which)
        (end, other), late = map(".".join, ends), [n for n, w in ends if w == "te" and n in bridged]
        if distance.which == "te" and not distance.is_upper:
            ticks = " ticks" * distance.length.in_ticks
            text = f"{distance}: certain {distance.length}{ticks} after {other}, or at {end}"
        elif distance.which == distance.other_which == "ts":
            text = f"{distance}: certain as both have started"
        else:
            text = f"{distance}: certain at {end}"
        yield text + f", once it is known where {' and '.join(late)} ended" * bool(late)


def _decided(point: DecisionPoint, constraint: Constraint) -> str:
    def named(endpoints: tuple[str, ...]) -> str:
        of = {"x": constraint.x, "y": constraint.y}
        return " = ".join(of[end[0]] + end[1:] for end in endpoints)

    text = f"{names(point.relation)[0]}: decided at {named(point.endpoints)}"
    return text + f" (alone: at {named(point.alone)})" * point.earlier


def _implied(query: Query) -> Iterator[str]:
    """What path consistency leaves possible, where that is less than what the query allows."""
    allowed = {(c.x, c.y): c.relations for c in query.constraints}
    for (x, y), possible in possible_relations(query, allowed).items():
        if (x, y) not in allowed:
            if possible != ANY:
                yield f"{x} {_set_text(possible)} {y}"
        elif possible != allowed[x, y]:
            never = names(allowed[x, y] & ~possible)
            yield f"{x} {said(possible)} {y} ({', '.join(never)}: never in a match)"


def _set_text(relations: Relation) -> str:
    if len(names(relations)) >= _MANY:
        return f"anything but {'; '.join(names(ANY & ~relations))}"
    return said(relations)


def _where(where: Condition, binding: Binding) -> Iterator[str]:
    """The condition on a match, and which of its equalities are join keys."""
    yield f"{where}: judged at the report of a match"
    assert binding.condition is not None
    for text in join_key_texts(where, binding.condition):
        yield f"{text}: a join key, known from the start of an interval"


# -- join plan and state ---------------------------------------------------------------------------


def _plan(query: Query, binding: Binding) -> Iterator[str]:
    """What completes a match from each thing that may be decided last."""
    symbols = [symbol.name for symbol in query.symbols]
    steps = binding.compiled.steps
    for constraint in query.constraints:
        x, y = constraint.x, constraint.y
        same = _same(query, constraint)
        if constraint.distances or read_by_automaton(constraint.relations, same):
            yield f"pair {x}, {y}: {_steps(steps[f'{x}, {y}'], query, symbols)}"
    for name in symbols:
        if name in steps:
            yield f"{name} begins or becomes valid: {_steps(steps[name], query, symbols)}"


def _steps(steps: tuple[Step, ...], query: Query, symbols: list[str]) -> str:
    if not steps:
        return "the match is complete"
    return ", then ".join(_step(step, query, symbols) for step in steps)


def _step(step: Step, query: Query, symbols: list[str]) -> str:
    constraint = query.constraints[step.constraint]
    source = constraint.x if step.side == 0 else constraint.y
    text = f"{symbols[step.target]} from {source}"
    checked = {symbol for n, symbol in enumerate(symbols) if step.checked >> n & 1}
    related = {
        c.y if c.x == symbols[step.target] else c.x
        for c in query.constraints
        if symbols[step.target] in (c.x, c.y)
    }
    fits = [symbol for symbol in symbols if symbol in checked & related]
    if fits:
        text += f" if it fits {' and '.join(fits)}"
    apart = [symbol for symbol in symbols if symbol in checked - related]
    keyed = [symbol for n, symbol in enumerate(symbols) if step.keyed >> n & 1]
    if keyed:
        text += f" if its key is that of {' and '.join(keyed)}"
    if apart:
        text += f" if it is not the interval of {' or '.join(apart)}"
    return text


def _state(query: Query, binding: Binding) -> Iterator[str]:
    """What is kept, and how large it is."""
    compiled = binding.compiled
    yield from keep_lines(query)
    seeds = binding.compiled.join_orders.seeds
    waits = [f"the pair {name}" if len(bound) == 2 else name for name, bound in seeds.items()]
    if len(query.present) > 1:
        yield f"a match waits for whichever comes last of {'; '.join(waits)}"
    elif query.absences or query.emit is not Emit.TRIGGER:
        yield f"a match waits for {waits[0]} to be valid"
    if query.absences:
        yield "  then until no interval can satisfy a NOT (…) any more"
    if query.emit is not Emit.TRIGGER:
        yield "  and, to be complete, for the ends of all its intervals"
    yield from _pairs(query)
    yield f"a partition: {_words(compiled.partition_words)}"
    for symbol, words in zip(query.symbols, compiled.interval_words, strict=True):
        text = f"an interval of {symbol.name}: {_words(words)}"
        least = symbol.at_least
        longest = keep_times(query, symbol)[0].length
        if least is not None and least.amount and least.in_ticks == longest.in_ticks:
            most = longest.amount // least.amount + 1
            matter = "be in a match" if symbol in query.present else "count"
            text += f", at most {most:,} of them that can {matter}, as each lasts {least}"
        yield text
    yield from _kept_of_events(query)
    if query.limits.once_per:
        yield f"a match given {_given_for(query)}: {_words(compiled.given_match_words)}"
    if query.absences:
        words = compiled.awaited_match_words
        yield f"a match that waits for what may not be there: {_words(words)}"
    if query.emit is Emit.BOTH:
        words = compiled.waiting_match_words
        yield f"a match from its trigger to its completion: {_words(words)}"


def _given_for(query: Query) -> str:
    """How long it is kept that a match was given: as the first interval of ONCE PER that is forgotten."""
    once = [symbol for symbol in query.symbols if symbol.name in query.limits.once_per]
    kept = [keep_times(query, symbol)[0] for symbol in once]
    from_starts = [time.length for time in kept if time.since == FROM_START]
    if not from_starts:
        return "as long as its intervals of ONCE PER are kept"
    least = min(from_starts, key=lambda length: (length.in_ticks, length.amount))
    return f"in the last {least}{' ticks' * least.in_ticks}"


def _kept_of_events(query: Query) -> Iterator[str]:
    """What is kept of earlier events, for the predicates that read them."""
    found: dict[str, str] = {}
    for symbol in query.symbols:
        tree = symbol.predicate.tree
        for node in () if tree is None else past_in(tree):
            match node:
                case Previous(_, events):
                    kept = "1 value" if events == 1 else f"{events} values"
                case Window(_, _, int(events)):
                    kept = f"the values of the last {events} events"
                case Window(_, _, Duration() as length):
                    unit = " ticks" * length.in_ticks
                    kept = f"the values of the last {length}{unit}"
                case _:
                    kept = "whether it is on"
            found[canonical_text(node)] = f"a partition for {canonical_text(node)}: {kept}"
    yield from found.values()


def _pairs(query: Query) -> Iterator[str]:
    """What is kept of pairs: of runs their partners' ids are enough, as runs of a symbol are in order."""
    listed = [
        f"{c.x}, {c.y}"
        for c in query.constraints
        if c.distances
        or any(
            query.stream_of(name).is_ready_made or query.symbol(name).bridging is not None
            for name in (c.x, c.y)
        )
    ]
    if len(listed) < len(query.constraints):
        runs = " of runs" * bool(listed)
        yield f"pairs{runs}: none; an interval holds its lowest and highest partner for each constraint"
    if listed:
        yield f"pairs {'; '.join(listed)}: each that is decided, until either can be in no match"


def _words(count: int) -> str:
    return f"{count} words ({count * _WORD_BYTES:,} bytes)"
