"""The tables of a program, and all of it in one array."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.records import assemble
from piestream.joins import records, state_records
from piestream.joins.records import OutputKind, Program, Validity
from piestream.joins.state_records import BridgedSlot, RowsHeader, RowSlot
from piestream.language.parts import Emit
from piestream.plan.absences import absence_fields, awaited_words
from piestream.plan.draft import COUNTER_WORDS, ProgramDraft, bits_word, length_word, symbols_of
from piestream.plan.limits import limit_fields
from piestream.plan.program import Cell, OutputWord, Words, numbers_instants


def _output(draft: ProgramDraft, word: OutputWord) -> list[int]:
    """The record of an output word."""
    kind, other = OutputKind.SLOT_WORD, 0
    if isinstance(word.what, Cell):
        slot_word = draft.cell_words[word.what] + word.part
    elif word.what in ("follows", "followed"):
        kind = OutputKind.FOLLOWS if word.what == "follows" else OutputKind.SLOT_WORD
        other = word.other
        (slot_word,) = (
            constraint.side_of(word.symbol)["predecessor"]
            for _, constraint in draft.constraints_of(word.symbol)
            if constraint.naming and constraint.edge.other(word.symbol) == word.other
        )
    else:
        slot_word = {
            "ts": RowSlot.offset("start"),
            "te": RowSlot.offset("end"),
            "start": draft.instants[0],
            "end": draft.instants[1],
            "number": RowSlot.offset("number"),
            "since": BridgedSlot.offset("since_instant"),
            "report": 0,
        }[word.what]
        if word.what == "report":
            kind = OutputKind.REPORT
    if word.at_trigger and kind == OutputKind.SLOT_WORD:
        kind = OutputKind.SLOT_WORD_AT_TRIGGER
    return records.Output.packed(kind=kind, symbol=word.symbol, word=slot_word, other=other)


def _join(draft: ProgramDraft, number: int, side: int) -> list[int]:
    """The record of the partners that one side of a constraint has on the other."""
    constraint = draft.constraints[number]
    ends = constraint.edge.x, constraint.edge.y
    source, target = constraint.sides[side], constraint.sides[1 - side]
    return records.Join.packed(
        target=ends[1 - side],
        source=ends[side],
        width=draft.symbols[ends[1 - side]]["width"],
        partners=source["partners"],
        last_ended_before=source["last_ended_before"],
        first_starting_after=source["first_starting_after"],
        scan=source["scan"],
        allowed=source["allowed"],
        target_last_ended_before=target["last_ended_before"],
        key=source["key"],
        latest_with_key=source["latest_with_key"],
        target_key=target["key"],
        bucket=target["bucket"],
        chain=target["chain"],
        constraint=number,
        side=side,
        listed=constraint.listed != NONE,
        allows_earlier=source["allows_earlier"],
        allows_later=source["allows_later"],
        **{part: draft.symbols[ends[1 - side]][part] for part in ("lead", "kept_from", "kept")},
    )


def _checks(draft: ProgramDraft) -> Words:
    """Of each two symbols the record of how they are checked to fit."""
    n_symbols = len(draft.symbols)
    rows = np.zeros((n_symbols, n_symbols, records.Check.size), np.int64)
    for symbol in range(n_symbols):
        identity = RowSlot.offset("number") if symbol in draft.rows else draft.instants[0]
        rows[:, symbol] = records.Check.packed(constraint=NONE, side=identity, keys=0, keys_end=0)
    side, constraint = records.Check.offset("side"), records.Check.offset("constraint")
    for number, edge in enumerate(draft.edges):
        for symbol in (edge.x, edge.y):
            rows[symbol, edge.other(symbol), [constraint, side]] = number, edge.side(symbol)
    keys = records.Check.offset("keys")
    for symbols, of_pair in groupby(enumerate(draft.keys), lambda each: symbols_of(each[1])):
        numbers = [number for number, _ in of_pair]
        for pair in (symbols, symbols[::-1]):
            rows[*pair, keys : keys + 2] = numbers[0], numbers[-1] + 1
    return rows


def _place_rows(draft: ProgramDraft) -> int:
    """Give places behind the ended bounds to what is kept of rows; gives where they end."""
    at = draft.ended_bounds_at + draft.n_ended_bounds
    for symbol, fields in enumerate(draft.symbols):
        if fields["gone_until"] != NONE:
            fields["gone_until"] += at
        if symbol in draft.rows:
            fields["rows"] = at + draft.n_gone + RowsHeader.size * sorted(draft.rows).index(symbol)
    at += draft.n_gone + RowsHeader.size * len(draft.rows)
    return at + state_records.Progress.size * bool(draft.distances)


def _has_lists(draft: ProgramDraft) -> bool:
    """True if some constraints are listed, or intervals come as rows."""
    return any(constraint.listed != NONE for constraint in draft.constraints) or bool(draft.rows)


def _is_plain(draft: ProgramDraft) -> bool:
    """True if intervals are runs as they are, each match is given, and no two events have one time."""
    query = draft.query
    return not (
        _has_lists(draft) or draft.bridged or draft.absent or query.is_sequenced or query.limits
    )


def _is_bounded(symbol: Mapping[str, int]) -> bool:
    """True if the lengths, or the numbers of events, of a symbol's intervals are bounded."""
    bounds = ("at_least", "at_most", "at_least_events", "at_most_events")
    return any(symbol[bound] != NONE for bound in bounds)


def _opens_plainly(draft: ProgramDraft, symbol: Mapping[str, int]) -> bool:
    """True if nothing is kept of a symbol's interval from its start on but its endpoints and partners."""
    kept = ("bridging", "ended_before", "first_event")
    tables = (("cell", "cell_end"), ("gap", "gap_end"))
    return not (
        draft.query.is_sequenced
        or any(symbol[word] != NONE for word in kept)
        or any(symbol[first] != symbol[end] for first, end in tables)
    )


def assembled(draft: ProgramDraft) -> Words:
    """The program; its join orders are still to be written."""
    symbols = range(len(draft.symbols))
    given_at = _place_rows(draft)
    bridges_at = given_at + state_records.Given.size * bool(draft.query.limits)
    absences_at = bridges_at + state_records.Bridges.size * bool(draft.bridged)
    sequence_at = absences_at + awaited_words(draft)
    shifted_at = sequence_at + state_records.Sequence.size * draft.query.is_sequenced
    is_shifted = numbers_instants(draft.query)
    names = [symbol.name for symbol in draft.query.symbols]
    return assemble(
        Program,
        n_symbols=len(symbols),
        n_constraints=len(draft.edges),
        n_automata=len(draft.constraints),
        n_rings=draft.n_rings,
        is_plain=_is_plain(draft),
        rows=bits_word(draft.rows),
        has_lists=_has_lists(draft),
        shortest=length_word(min(kept.length for kept in draft.ticks.kept)),
        gap=length_word(draft.ticks.max_gap),
        emit_both=draft.query.emit is Emit.BOTH,
        partition_words=shifted_at + state_records.Shifted.size * is_shifted,
        n_outputs=len(draft.outputs),
        symbols=[
            records.Symbol.packed(**(fields | {"is_plain": _opens_plainly(draft, fields)}))
            for fields in draft.symbols
        ],
        incidents=draft.incidents,
        constraints=[
            constraint.packed(number, draft.join_orders.is_cyclic)
            for number, constraint in enumerate(draft.constraints)
        ],
        distances=draft.distances,
        transitions=np.concatenate([*draft.transitions, np.zeros((0, 2), np.int64)]).ravel(),
        seeds=np.zeros(len(draft.join_orders.seeds) * records.Seed.size, np.int64),
        steps=np.zeros(draft.join_orders.n_steps * records.Step.size, np.int64),
        joins=[_join(draft, number, side) for number in range(len(draft.edges)) for side in (0, 1)],
        checks=_checks(draft).ravel(),
        outputs=[_output(draft, word) for word in draft.outputs],
        sort_order=sorted(symbols, key=lambda s: (s in draft.absent, names[s])),
        bridged=bits_word(draft.bridged),
        bridges_at=bridges_at if draft.bridged else NONE,
        cells=draft.cells,
        has_cells=bool(draft.cells or draft.counted),
        counts_events=draft.query.is_sequenced
        or any(fields["first_event"] != NONE for fields in draft.symbols),
        valid_at_length=bits_word(
            s for s in symbols if draft.symbols[s]["validity"] == Validity.AT_LENGTH
        ),
        bounded=bits_word(s for s in symbols if _is_bounded(draft.symbols[s])),
        exceeds=bits_word(
            s for s in draft.absent if draft.query.symbols[s].at_most_events is not None
        ),
        in_ranges=bits_word({s for e in draft.edges if e.ranged for s in (e.x, e.y)}),
        all_after=bits_word(s for s in symbols if draft.follows_all(s)),
        automata_at=draft.automata_at,
        ended_bounds_at=draft.ended_bounds_at,
        progress_at=given_at - state_records.Progress.size if draft.distances else NONE,
        keys=draft.key_rows,
        n_counters=len(draft.counted),
        counters=[
            [draft.n_attributes + number, *range(at, at + COUNTER_WORDS)]
            for number in range(len(draft.counted))
            for at in [draft.counters_at + COUNTER_WORDS * number]
        ],
        equal_keys=[
            records.EqualKeys.packed(words=[draft.cell_words[key.x], draft.cell_words[key.y]])
            for key in draft.keys
        ],
        is_sequenced=draft.query.is_sequenced,
        sequence_at=sequence_at if draft.query.is_sequenced else NONE,
        shift_column=draft.n_attributes + len(draft.counted) if is_shifted else NONE,
        shifted_at=shifted_at if is_shifted else NONE,
        start_instant=draft.instants[0],
        end_instant=draft.instants[1],
        **absence_fields(draft, absences_at),
        **limit_fields(draft, given_at),
    )
