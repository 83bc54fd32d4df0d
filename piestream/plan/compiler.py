"""A query becomes a program, stage by stage: constraints, absences, symbols, bounds, keys, and all in one array.

Slots of one symbol all have the same width, so that a word that a constraint or a cell takes in them
lies in the same place in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from piestream.language.model import Query
from piestream.plan.absences import add_absences
from piestream.plan.assembly import assembled
from piestream.plan.bounds import add_bounds
from piestream.plan.constraints import add_constraint, add_naming_constraint, named_edges
from piestream.plan.draft import ProgramDraft
from piestream.plan.join_order import Estimate, bounded_sides, spanning_tree
from piestream.plan.keys import add_keys
from piestream.plan.program import CompiledQuery, JoinKey, OutputWord, Ticks, write_join_orders
from piestream.plan.symbols import add_incidents, add_kept, add_report_words, add_validity


def compile_query(
    query: Query, ticks: Ticks, outputs: Sequence[OutputWord], keys: Sequence[JoinKey] = (),
    n_attributes: int = 0,
) -> CompiledQuery:  # fmt: skip
    """Everything that the loops need to know of a query; the cells of ``keys`` are in ``outputs``.

    Behind the columns of the attributes lie those of `counted_streams`, and where `numbers_instants`
    says so, one more.
    """
    draft = ProgramDraft(query, ticks, outputs, keys, n_attributes)
    for number in range(len(draft.edges)):
        add_constraint(draft, number)
    for number in named_edges(draft):
        add_naming_constraint(draft, number)
    add_absences(draft)
    draft.n_rings += bool(draft.query.limits.once_per) + 2 * bool(draft.absences)
    for symbol in range(len(draft.symbols)):
        add_incidents(draft, symbol)
        add_validity(draft, symbol)
        add_kept(draft, symbol)
    tree = [c for c in spanning_tree(len(draft.symbols), draft.edges) if _has_bounds(draft, c)]
    draft.n_ended_bounds = add_bounds(
        draft.symbols,
        draft.constraints[: len(draft.edges)],
        bounded_sides(tree, draft.edges, draft.seeds),
        draft.rows,
        draft.slots,
        draft.ended_bounds_at,
    )
    for symbol in range(len(draft.symbols)):
        add_report_words(draft, symbol)
    add_keys(draft)
    for symbol in range(len(draft.symbols)):
        draft.symbols[symbol]["width"] = draft.slots.widths[symbol]
    program = assembled(draft)
    write_join_orders(program, draft.join_orders, Estimate())
    output_words = {word: column for column, word in enumerate(draft.outputs)}
    return CompiledQuery(program, output_words, draft.ticks, draft.join_orders, draft.keys)


def _has_bounds(draft: ProgramDraft, number: int) -> bool:
    """Whether a constraint bounds its intervals: of those known late, begun later is not after."""
    edge = draft.edges[number]
    return not (edge.ranged and {edge.x, edge.y} & (draft.late | draft.bridged))
