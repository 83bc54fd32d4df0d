"""The symbols of a program: when their intervals are valid, how long they are kept, what is reported of them."""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.intervals import aggregates
from piestream.joins import records
from piestream.joins.records import Validity
from piestream.joins.state_records import Slot
from piestream.language.parts import Emit
from piestream.plan.draft import LONGEST, ProgramDraft, length_word
from piestream.plan.program import Cell


def add_incidents(draft: ProgramDraft, symbol: int) -> None:
    """The constraints of a symbol, and which side of them it is."""
    fields = draft.symbols[symbol]
    fields["incident"] = len(draft.incidents)
    for number, constraint in draft.constraints_of(symbol):
        side = constraint.edge.side(symbol)
        draft.incidents.append(records.Incident.packed(constraint=number, side=side))
    fields["incident_end"] = len(draft.incidents)


def add_validity(draft: ProgramDraft, symbol: int) -> None:
    """When intervals become valid, and whether a match may be completed by one."""
    fields, ticks = draft.symbols[symbol], draft.ticks
    fields["at_least"] = length_word(ticks.at_least[symbol])
    fields["at_most"] = length_word(ticks.at_most[symbol])
    fields["silence"] = length_word(ticks.silences[symbol])
    fields["is_longer"] = symbol in ticks.longer
    if symbol in draft.bridged:
        fields["bridging"] = length_word(ticks.bridging[symbol])
    completes = draft.query.emit is Emit.COMPLETION and symbol not in draft.absent
    fields["at_passing"] = completes
    fields["has_lists"] = any(c.listed != NONE for _, c in draft.constraints_of(symbol))
    fields["validity"] = Validity.AT_START
    spec = draft.query.symbols[symbol]
    least, most = spec.at_least_events, spec.at_most_events
    if least is not None or most is not None:
        fields["at_least_events"] = 0 if least is None else least
        fields["at_most_events"] = NONE if most is None else most
        fields["first_event"] = draft.slots.take(symbol)
        if spec.stream in draft.counted:
            fields["counter"] = draft.counted.index(spec.stream)
    has_least = ticks.at_least[symbol] is not None or least is not None
    has_most = ticks.at_most[symbol] is not None or most is not None
    if completes or has_most:
        fields["validity"] = Validity.AT_END
    elif has_least:
        fields["at_least"] = length_word(ticks.at_least[symbol] or 0)
        fields["validity"] = Validity.AT_LENGTH
    if symbol in draft.absent:
        return
    alone = len(draft.present) == 1
    is_last = fields["validity"] != Validity.AT_START or alone or draft.comes_after_all(symbol)
    if is_last and draft.may_complete(symbol):
        name = draft.query.symbols[symbol].name
        fields["seed"] = draft.join_orders.add_seed(name, (symbol,))
        draft.seeds.append(((symbol,), None))


def add_kept(draft: ProgramDraft, symbol: int) -> None:
    """How long intervals are kept, beyond the shortest time for which those of some symbol are."""
    fields, kept = draft.symbols[symbol], draft.ticks.kept[symbol]
    fields["kept_from"] = Slot.offset("end" if kept.after_end else "start")
    fields["kept"] = length_word(kept.length - min(kept.length for kept in draft.ticks.kept))
    fields["lead"] = length_word(LONGEST) if kept.after_end else fields["kept"]


def add_report_words(draft: ProgramDraft, symbol: int) -> None:
    """Words for the matches that wait for the interval's end, and for its aggregates."""
    fields = draft.symbols[symbol]
    if draft.query.emit is Emit.BOTH:
        fields["waiting_list"] = draft.slots.take(symbol)
    fields["cell"] = len(draft.cells)
    for cell in dict.fromkeys(w.what for w in draft.outputs if isinstance(w.what, Cell)):
        if cell.symbol == symbol:
            word = draft.slots.take(symbol, aggregates.CELL_SIZE[cell.kind])
            draft.cell_words[cell] = word
            packed = aggregates.Cell.packed(kind=cell.kind, column=cell.column, word=word)
            draft.cells.append(packed)
    fields["bridge_cell"] = len(draft.cells)
    fields["gap"] = sum(map(len, draft.gaps[:symbol]))
    fields["gap_end"] = fields["gap"] + len(draft.gaps[symbol])
    if symbol in draft.bridged:
        for cell_words in draft.cells[fields["cell"] :]:
            kind, column, _ = cell_words
            size = aggregates.CELL_SIZE[aggregates.CellKind(kind)]
            word = draft.slots.take(symbol, size)
            draft.cells.append(aggregates.Cell.packed(kind=kind, column=column, word=word))
    fields["cell_end"] = len(draft.cells)
