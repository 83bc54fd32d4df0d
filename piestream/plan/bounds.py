"""Words for the bounds of the semijoin reduction: of constraints, on the sides that they limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count

from piestream.compiled.constants import NONE
from piestream.plan.layout import ConstraintWords, SlotLayout

__all__ = ["add_bounds"]


def add_bounds(
    symbols: Sequence[dict[str, int]],
    constraints: Sequence[ConstraintWords],
    bounded: Collection[tuple[int, int]],
    rows: Collection[int],
    slots: SlotLayout,
    ended_bounds_at: int,
) -> int:
    """Assign words to the bounds of symbols and constraints; gives how many a partition has.

    ``bounded`` are the numbers of constraints, with the symbol that they limit; ``rows`` the symbols
    whose intervals come as rows.
    """
    ended_bounds = count(ended_bounds_at)
    for symbol, fields in enumerate(symbols):
        mine = [constraints[number] for number, s in bounded if s == symbol]
        gives = [
            constraint
            for number, constraint in enumerate(constraints)
            if constraint.listed != NONE
            and symbol in (constraint.edge.x, constraint.edge.y)
            and constraint.side_of(symbol)["allows_later"]
            and (number, constraint.edge.other(symbol)) in bounded
        ]
        mine.sort(key=lambda constraint: constraint not in gives)
        fields["bound"] = slots.take(symbol, len(mine))
        fields["bound_end"] = slots.widths[symbol]
        for bound, constraint in enumerate(mine, fields["bound"]):
            side = constraint.side_of(symbol)
            side["bound"] = bound
            if constraint.listed != NONE:
                _add_listed(side, symbol, slots, symbol in rows)
            else:
                _add_of_runs(side, symbol, slots, ended_bounds, constraint.automaton == NONE)
        if symbol in rows:
            _add_of_orders(fields, symbol, mine, gives, slots)
        else:
            for constraint in gives:
                constraint.side_of(symbol)["given"] = slots.take(symbol)
        fields["range_bound_end"] = slots.widths[symbol]
    return next(ended_bounds) - ended_bounds_at


def _add_of_runs(
    side: dict[str, int], symbol: int, slots: SlotLayout, ended_bounds: count[int], no_pairs: bool
) -> None:
    """The parts of a bound of runs by runs, where partners come from more than one range."""
    earlier = side["last_ended_before"] != NONE
    later = side["first_starting_after"] != NONE
    one_range = earlier != later and no_pairs
    if earlier:
        side["bound_by_earlier"] = side["bound"] if one_range else slots.take(symbol)
        side["bound_by_ended"] = next(ended_bounds)
    if later:
        side["bound_by_later"] = side["bound"] if one_range else slots.take(symbol)


def _add_listed(side: dict[str, int], symbol: int, slots: SlotLayout, of_rows: bool) -> None:
    """The same of a listed constraint; the parts by later partners of rows lie together."""
    one_range = not side["allowed"] and side["allows_earlier"] != side["allows_later"]
    if side["allows_earlier"]:
        side["bound_by_earlier"] = side["bound"] if one_range else slots.take(symbol)
    if side["allows_later"] and not of_rows:
        side["bound_by_later"] = side["bound"] if one_range else slots.take(symbol)


def _add_of_orders(
    fields: dict[str, int],
    symbol: int,
    mine: Sequence[ConstraintWords],
    gives: Sequence[ConstraintWords],
    slots: SlotLayout,
) -> None:
    """What the order by end of a symbol of rows knows of bounds: see `Symbol`."""
    fields["by_later"] = slots.widths[symbol]
    for constraint in mine:
        side = constraint.side_of(symbol)
        if side["allows_later"]:
            side["bound_by_later"] = slots.take(symbol)
    n_later = slots.widths[symbol] - fields["by_later"]
    fields["given"] = slots.widths[symbol]
    for constraint in mine:  # those that give come first
        if constraint in gives:
            constraint.side_of(symbol)["given"] = slots.take(symbol)
    fields["given_end"] = fields["lowest"] = slots.widths[symbol]
    fields["lowest_end"] = fields["lowest"] + n_later
    slots.take(symbol, n_later)
