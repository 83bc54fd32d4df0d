"""A query as the compiled loops read it: one array of integers (layout.py says what is where)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from piestream.automata.minterm import compile_pair
from piestream.compiled import layout as at
from piestream.intervals.aggregates import CELL_SIZE
from piestream.language.model import Emit, Query
from piestream.plan.join_order import (
    Edge,
    Estimate,
    Step,
    asked,
    spanning_tree,
    split_of,
    steps_from,
)
from piestream.relations import Relation, inverse

MAX_SYMBOLS = 64

#: The longest length a word can hold: without sign, and apart from NOWHERE.
_LONGEST = (1 << 64) - 2

_BEFORE, _AFTER = Relation.BEFORE, Relation.AFTER
_PRECISE = Relation.FOLLOWED_BY | Relation.FOLLOWS


@dataclass(frozen=True, slots=True)
class Ticks:
    """The durations of a query in ticks of its time column; None where there is none."""

    within: int
    max_gap: int | None
    at_least: tuple[int | None, ...]
    at_most: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One running aggregate: of which symbol, which kind (intervals.aggregates), which column."""

    symbol: int
    kind: int
    column: int


@dataclass(frozen=True, slots=True)
class OutputWord:
    """A word that RETURN needs in a result row. ``what``: "ts", "te", a Cell or a follower."""

    symbol: int
    what: str | Cell
    part: int = 0  # which word of a cell
    other: int = 0  # for "follows": the symbol that this one may follow immediately


@dataclass(frozen=True)
class Tables:
    """The compiled query, and in which word of a result row each wanted thing is found."""

    code: NDArray[np.int64]
    words: Mapping[OutputWord, int]
    n_symbols: int
    n_outputs: int
    plan: Plan = field(repr=False)

    @property
    def steps(self) -> Mapping[str, tuple[Step, ...]]:
        """How a match is completed, by what was decided last, before anything has been seen."""
        return self.plan.steps(Estimate())


class Plan:
    """All seeds of a query, and their steps for any estimate of how many partners there are."""

    def __init__(self, edges: Sequence[Edge], twins: Sequence[frozenset[int]]) -> None:
        self.edges = edges
        self.twins = twins
        self.seeds: dict[str, tuple[int, ...]] = {}
        #: Without ranges and cycles nothing is entered in vain, so that any order will do.
        symbols = {s for edge in edges for s in (edge.x, edge.y)}
        self.matters = any(e.ranged for e in edges) or len(edges) >= len(symbols) > 0

    def seed(self, name: str, bound: tuple[int, ...]) -> int:
        """Enter a seed that binds these symbols; gives its number."""
        self.seeds[name] = bound
        return len(self.seeds) - 1

    def steps(self, estimate: Estimate) -> dict[str, tuple[Step, ...]]:
        """The steps of every seed."""
        return {
            name: steps_from(bound, self.edges, self.twins, estimate)
            for name, bound in self.seeds.items()
        }


def _sizes(plan: Plan) -> tuple[int, int, int]:
    """The words of the tables of seeds, steps and checks, which no estimate changes."""
    steps = [step for steps in plan.steps(Estimate()).values() for step in steps]
    return (
        len(plan.seeds) * at.SEED_WORDS,
        len(steps) * at.STEP_WORDS,
        sum(len(step.checks) for step in steps) * at.CHECK_WORDS,
    )


def write_plan(code: NDArray[np.int64], plan: Plan, estimate: Estimate) -> None:
    """Put the steps that suit an estimate into compiled tables."""
    seed_words: list[int] = []
    step_words: list[int] = []
    check_words: list[int] = []
    for steps in plan.steps(estimate).values():
        begin = len(step_words) // at.STEP_WORDS
        for step in steps:
            first_check = len(check_words) // at.CHECK_WORDS
            for check in step.checks:
                constraint = at.NOWHERE if check.constraint is None else check.constraint
                check_words += [constraint, check.side, check.other]
            end_check = len(check_words) // at.CHECK_WORDS
            step_words += [*_resolved(code, step), first_check, end_check]
        end = len(step_words) // at.STEP_WORDS
        seed_words += [begin, end, begin + split_of(steps, plan.edges)]
    for where, words in zip(_PLAN_TABLES, (seed_words, step_words, check_words), strict=True):
        code[code[where] : code[where] + len(words)] = words


def _resolved(code: NDArray[np.int64], step: Step) -> list[int]:
    """The words of a step up to its checks, looked up in the tables that it stands for."""
    con = int(code[at.CONSTRAINTS_AT]) + step.constraint * at.CON_WORDS
    source = int(code[con + (at.CON_X, at.CON_Y)[step.side]])
    here = con + at.CON_SIDES + step.side * at.SIDE_WORDS
    there = con + at.CON_SIDES + (1 - step.side) * at.SIDE_WORDS
    width = int(code[at.SYMBOLS_AT]) + step.target * at.SYM_WORDS + at.SYM_WIDTH
    sides = (at.SIDE_LO, at.SIDE_LATER, at.SIDE_EARLIER, at.SIDE_WALK, at.SIDE_ALLOWED)
    return [
        step.target,
        source,
        at.RINGS + step.target * at.RING_WORDS,
        int(code[width]),
        *(int(code[here + side]) for side in sides),
        int(code[there + at.SIDE_LATER]),
    ]


_PLAN_TABLES = (at.SEEDS_AT, at.STEPS_AT, at.CHECKS_AT)


def _signed(bits: int) -> int:
    """64 bits as a signed word."""
    return bits - (1 << 64) if bits >> 63 else bits


def range_free(relations: Relation, same_predicate: bool) -> Relation:
    """What of a constraint is kept as pairs: not before and after, nor what they include."""
    pairs = relations & ~(_BEFORE | _AFTER)
    if relations & _BEFORE:
        pairs &= ~Relation.FOLLOWED_BY
    if relations & _AFTER:
        pairs &= ~Relation.FOLLOWS
    return pairs & _PRECISE if same_predicate else pairs


def walk_of(relations: Relation) -> int:
    """How an interval's partners lie between the lowest and the highest (layout.WALK_*)."""
    checked = bool(relations & _PRECISE)
    if relations & Relation.CONTAINS:
        return at.WALK_ALL_CHECKED if checked else at.WALK_ALL
    return at.WALK_ENDS_CHECKED if checked else at.WALK_ENDS


def length_word(ticks: int | None) -> int:
    """A length in ticks as a word, NOWHERE if there is none. It may exceed 63 bits."""
    if ticks is None:
        return at.NOWHERE
    ticks = min(ticks, _LONGEST)
    return _signed(ticks)


class _Slots:
    """Hands out the words of each symbol's slot."""

    def __init__(self, n_symbols: int) -> None:
        self.widths = [at.SLOT_EDGES] * n_symbols

    def take(self, symbol: int, words: int = 1) -> int:
        first = self.widths[symbol]
        self.widths[symbol] += words
        return first


def _keep_bests(
    sides: Sequence[tuple[int, int]],
    edges: Sequence[Edge],
    blocks: Sequence[list[int]],
    slots: _Slots,
    ended_at: int,
) -> tuple[list[tuple[int, int, int]], int]:
    """Give words to the best of these sides (reach.py): of constraints, seen from a symbol.

    Gives for each symbol where its bests begin, where those of whole sides end, and where all end;
    and where the words of a partition end, of which the first is at ``ended_at``.
    """
    words = []
    for symbol in range(len(slots.widths)):
        mine = [c for c, seen_from in sides if seen_from == symbol]
        first = slots.take(symbol, len(mine))
        end = slots.widths[symbol]
        for best, c in enumerate(mine, first):
            block = blocks[c]
            base = at.CON_SIDES + edges[c].side(symbol) * at.SIDE_WORDS
            later = block[base + at.SIDE_LATER] != at.NOWHERE
            earlier = block[base + at.SIDE_EARLIER] != at.NOWHERE
            is_alone = later + earlier == 1 and block[at.CON_NEXT] == at.NOWHERE
            block[base + at.SIDE_BEST] = best
            if later:
                block[base + at.SIDE_BEST_LATER] = best if is_alone else slots.take(symbol)
                block[base + at.SIDE_ENDED] = ended_at
                ended_at += 1
            if earlier:
                block[base + at.SIDE_BEST_EARLIER] = best if is_alone else slots.take(symbol)
        words.append((first, end, slots.widths[symbol]))
    return words, ended_at


def compile_tables(query: Query, ticks: Ticks, wanted: tuple[OutputWord, ...]) -> Tables:
    """Everything that the loops need to know of a query."""
    names = [symbol.name for symbol in query.symbols]
    number = {name: i for i, name in enumerate(names)}
    n = len(names)
    constraints = query.constraints
    same = [
        query.symbols[number[c.x]].predicate == query.symbols[number[c.y]].predicate
        for c in constraints
    ]
    edges = [
        Edge(number[c.x], number[c.y], bool(c.relations & (_BEFORE | _AFTER))) for c in constraints
    ]
    tied = {frozenset((e.x, e.y)) for e in edges}
    twins = [
        frozenset((i, j))
        for i in range(n)
        for j in range(i)
        if query.symbols[i].predicate == query.symbols[j].predicate
        and frozenset((i, j)) not in tied
    ]
    # automata that only tell followed-by from before, where somebody asks
    namers = sorted({(w.symbol, w.other) for w in wanted if w.what == "follows"})
    naming = [
        c for c, edge in enumerate(edges) if {(edge.x, edge.y), (edge.y, edge.x)} & set(namers)
    ]

    slots = _Slots(n)
    dfa_words: list[int] = []
    blocks: list[list[int]] = []
    plan = Plan(edges, twins)
    seeds: list[tuple[tuple[int, ...], int | None]] = []

    def reader(relations: Relation, same_predicate: bool) -> tuple[int, int]:
        automaton = compile_pair(relations, same_predicate)
        first = len(dfa_words)
        dfa_words.extend(int(v) for v in automaton.next_state.ravel())
        second = len(dfa_words)
        dfa_words.extend(int(v) for v in automaton.decides.ravel())
        return first, second

    name_word: dict[tuple[int, int], int] = {}
    for c, constraint in enumerate(constraints):
        edge = edges[c]
        pairs = range_free(constraint.relations, same[c])
        block = [at.NOWHERE] * at.CON_WORDS
        block[at.CON_X], block[at.CON_Y], block[at.CON_NAMES] = edge.x, edge.y, 0
        if pairs:
            block[at.CON_NEXT], block[at.CON_DECIDES] = reader(pairs, same[c])
            seeds.append(((edge.x, edge.y), c))
        label = f"{constraint.x}, {constraint.y}"
        block[at.CON_SEED] = plan.seed(label, (edge.x, edge.y))
        for side, symbol in enumerate((edge.x, edge.y)):
            seen = constraint.relations if side == 0 else inverse(constraint.relations)
            kept = pairs if side == 0 else inverse(pairs)
            base = at.CON_SIDES + side * at.SIDE_WORDS
            block[base + at.SIDE_LO] = slots.take(symbol, 2)
            block[base + at.SIDE_WALK] = walk_of(kept)
            block[base + at.SIDE_ALLOWED] = int(kept)
            if seen & _BEFORE:
                block[base + at.SIDE_EARLIER] = slots.take(symbol)
            if seen & _AFTER:
                block[base + at.SIDE_LATER] = slots.take(symbol)
        blocks.append(block)
    for c in naming:
        edge = edges[c]
        block = [at.NOWHERE] * at.CON_WORDS
        block[at.CON_X], block[at.CON_Y], block[at.CON_NAMES] = edge.x, edge.y, 1
        block[at.CON_NEXT], block[at.CON_DECIDES] = reader(_PRECISE, same[c])
        for side, symbol in enumerate((edge.x, edge.y)):
            word = slots.take(symbol)
            block[at.CON_SIDES + side * at.SIDE_WORDS + at.SIDE_NAME] = word
            name_word[symbol, edge.other(symbol)] = word
        blocks.append(block)

    incident: list[list[int]] = [[] for _ in range(n)]
    for c, block in enumerate(blocks):
        incident[block[at.CON_X]] += [c, 0]
        incident[block[at.CON_Y]] += [c, 1]

    deferred: list[int] = []
    seeded: list[int] = []
    to_length = 0
    all_after = 0
    for s in range(n):
        deferred.append(at.DEFERRED_NOT)
        if query.emit is Emit.COMPLETION or ticks.at_most[s] is not None:
            deferred[s] = at.DEFERRED_TO_END
        elif ticks.at_least[s] is not None:
            deferred[s] = at.DEFERRED_TO_LENGTH
            to_length |= 1 << s
        later = [
            blocks[c][at.CON_SIDES + side * at.SIDE_WORDS + at.SIDE_LATER]
            for c, side in zip(incident[s][::2], incident[s][1::2], strict=True)
            if not blocks[c][at.CON_NAMES]
        ]
        if later and at.NOWHERE not in later:
            all_after |= 1 << s
        seeded.append(at.NOWHERE)
        if deferred[s] != at.DEFERRED_NOT or n == 1 or all_after >> s & 1:
            seeded[s] = plan.seed(names[s], (s,))
            seeds.append(((s,), None))

    header = [0] * at.HEADER_WORDS
    header[at.AUTOMATA_AT] = at.RINGS + n * at.RING_WORDS
    header[at.ENDED_AT] = header[at.AUTOMATA_AT] + len(blocks)
    sides = asked(spanning_tree(n, edges), edges, seeds)
    best, header[at.PARTITION_WORDS] = _keep_bests(sides, edges, blocks, slots, header[at.ENDED_AT])

    symbol_words: list[int] = []
    watch: list[int] = []
    cells: dict[Cell, int] = {}
    cell_words: list[int] = []
    incident_words: list[int] = []
    for s in range(n):
        watch.append(slots.take(s) if query.emit is Emit.BOTH else at.NOWHERE)
        first_cell = len(cell_words) // at.CELL_WORDS
        for cell in dict.fromkeys(w.what for w in wanted if isinstance(w.what, Cell)):
            if cell.symbol == s:
                cells[cell] = slots.take(s, CELL_SIZE.get(cell.kind, 1))
                cell_words += [cell.kind, cell.column, cells[cell]]
        first_incident = len(incident_words) // at.INC_WORDS
        incident_words += incident[s]
        symbol_words += [
            slots.widths[s],
            length_word(ticks.at_least[s]),
            length_word(ticks.at_most[s]),
            deferred[s],
            first_incident,
            len(incident_words) // at.INC_WORDS,
            first_cell,
            len(cell_words) // at.CELL_WORDS,
            watch[s],
            seeded[s],
            *best[s],
        ]

    output_words: list[int] = []
    words: dict[OutputWord, int] = {}
    for want in dict.fromkeys(wanted):
        words[want] = len(output_words) // at.OUT_WORDS
        if isinstance(want.what, Cell):
            entry = [at.OUT_SLOT_WORD, want.symbol, cells[want.what] + want.part, 0]
        elif want.what == "follows":
            entry = [at.OUT_NAMED, want.symbol, name_word[want.symbol, want.other], want.other]
        else:
            entry = [at.OUT_SLOT_WORD, want.symbol, at.START if want.what == "ts" else at.END, 0]
        output_words += entry

    body: list[int] = []

    def place(word: int, words: list[int]) -> None:
        header[word] = at.HEADER_WORDS + len(body)
        body.extend(words)

    dfa_at = at.HEADER_WORDS
    body += dfa_words
    for block in blocks:
        if block[at.CON_NEXT] != at.NOWHERE:
            block[at.CON_NEXT] += dfa_at
            block[at.CON_DECIDES] += dfa_at
    place(at.SYMBOLS_AT, symbol_words)
    place(at.INCIDENT_AT, incident_words)
    place(at.CONSTRAINTS_AT, [word for block in blocks for word in block])
    for where, size in zip(_PLAN_TABLES, _sizes(plan), strict=True):
        place(where, [0] * size)
    place(at.OUTPUTS_AT, output_words)
    place(at.ORDER_AT, sorted(range(n), key=names.__getitem__))
    place(at.CELLS_AT, cell_words)
    header[at.N_SYMBOLS] = n
    header[at.N_CONSTRAINTS] = len(constraints)
    header[at.N_READERS] = len(blocks)
    header[at.WINDOW] = length_word(ticks.within)
    header[at.GAP] = length_word(ticks.max_gap)
    header[at.EMIT_BOTH] = int(query.emit is Emit.BOTH)
    header[at.N_OUTPUTS] = len(output_words) // at.OUT_WORDS
    header[at.HAS_CELLS] = int(bool(cell_words))
    header[at.TO_LENGTH] = _signed(to_length)
    header[at.ALL_AFTER] = _signed(all_after)
    ranged = {s for edge in edges if edge.ranged for s in (edge.x, edge.y)}
    header[at.IN_RANGES] = _signed(sum(1 << s for s in ranged))
    code = np.array(header + body, np.int64)
    write_plan(code, plan, Estimate())
    return Tables(
        code,
        words,
        n,
        header[at.N_OUTPUTS],
        plan,
    )
