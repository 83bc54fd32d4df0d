"""The indexes of a program by which partners with equal values are found."""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.intervals import aggregates
from piestream.joins import records
from piestream.plan.draft import ProgramDraft
from piestream.plan.program import Cell


def add_keys(draft: ProgramDraft) -> None:
    """Words for the indexes of symbols by their keys; the buckets come last in slots."""
    indexed: dict[Cell, int] = {}  # word of the chain
    for key, constraint in draft.looked_up():
        for mine, theirs in ((key.x, key.y), (key.y, key.x)):
            side = constraint.side_of(mine.symbol)
            side["key"] = draft.cell_words[mine]
            if constraint.listed == NONE and side["allows_earlier"]:
                side["latest_with_key"] = draft.slots.take(mine.symbol)
            in_range = side["allows_earlier"] or side["allows_later"]
            if theirs not in indexed and in_range:
                indexed[theirs] = draft.slots.take(theirs.symbol)
    cells = dict.fromkeys(cell for key in draft.keys for cell in (key.x, key.y))
    for symbol, fields in enumerate(draft.symbols):
        fields["buckets"] = draft.slots.widths[symbol]
        fields["key"] = len(draft.key_rows)
        for cell in cells:
            if cell.symbol != symbol:
                continue
            chain = indexed.get(cell, NONE)
            bucket = NONE if chain == NONE else draft.slots.take(symbol)
            word = draft.cell_words[cell]
            packed = aggregates.Cell.packed(kind=cell.kind, column=cell.column, word=word)
            number = draft.cells.index(packed, fields["cell"], fields["cell_end"])
            draft.key_rows.append(
                records.Key.packed(cell=number, word=word, bucket=bucket, chain=chain)
            )
            _look_up_by(draft, cell, bucket, chain)
        fields["key_end"] = len(draft.key_rows)


def _look_up_by(draft: ProgramDraft, cell: Cell, bucket: int, chain: int) -> None:
    """Let the constraints of a key find partners by its index."""
    for key, constraint in draft.looked_up():
        if cell in (key.x, key.y):
            side = constraint.side_of(cell.symbol)
            side["bucket"], side["chain"] = bucket, chain
