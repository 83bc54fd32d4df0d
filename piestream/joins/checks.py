"""What is checked of a candidate before it is bound: constraints that close a cycle, and join keys."""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Rows, kernel
from piestream.joins.keys import equal_keys
from piestream.joins.listed import is_listed
from piestream.joins.pairs import is_pair
from piestream.joins.partition import Partition
from piestream.joins.records import Check, Join, Step
from piestream.joins.scratch import Bound
from piestream.joins.state_records import Slot
from piestream.joins.uncertain import is_apart

__all__ = ["passes"]


@kernel
def _is_listed_pair(
    partition: Partition, check: Check, slot: Slot, slot_id: int, other: Slot, other_id: int
) -> bool:
    """Whether two intervals that have been inserted are a pair of a listed constraint."""
    constraint = partition.program.constraints[check.constraint]
    mine = constraint.sides[check.side]
    s = constraint.symbols[check.side]
    s_other = constraint.symbols[1 - check.side]
    if mine.allows_earlier and is_apart(partition, s_other, other, s, slot):
        return True
    if mine.allows_later and is_apart(partition, s, slot, s_other, other):
        return True
    if check.side == 0:
        return is_listed(partition, constraint, slot_id, other_id)
    return is_listed(partition, constraint, other_id, slot_id)


@kernel
def _fits(
    partition: Partition, target: int, checked: int, slot: Slot, slot_id: int, bound: Rows[Bound]
) -> bool:
    """Whether a candidate is a pair with the bound symbols (as bits) whose constraints close a cycle."""
    program = partition.program
    first = target * program.n_symbols
    while checked:
        s = trailing_zeros(checked)
        checked &= checked - 1
        check = program.checks[first + s]
        other = Slot(at_word(partition.pool, bound[s].place))
        other_id = bound[s].slot_id
        if check.constraint == NONE:
            if slot[check.side] == other[check.side]:
                return False
        elif program.constraints[check.constraint].listed != NONE:
            if not _is_listed_pair(partition, check, slot, slot_id, other, other_id):
                return False
        elif not is_pair(
            program,
            program.constraints[check.constraint],
            check.side,
            slot,
            slot_id,
            other,
            other_id,
        ):
            return False
    return True


@kernel
def _has_equal_keys(
    partition: Partition, join: Join, keyed: int, slot: Slot, bound: Rows[Bound]
) -> bool:
    """Whether the keys of a candidate are those of symbols (as bits) that are bound."""
    program = partition.program
    first = join.target * program.n_symbols
    while keyed:
        s = trailing_zeros(keyed)
        keyed &= keyed - 1
        check = program.checks[first + s]
        other = Slot(at_word(partition.pool, bound[s].place))
        mine = 0 if join.target < s else 1
        # by the first key of its partners the source has found them
        for number in range(check.keys + (s == join.source), check.keys_end):
            words = program.equal_keys[number].words
            if not equal_keys(slot, words[mine], other, words[1 - mine]):
                return False
    return True


@kernel
def passes(
    partition: Partition, join: Join, step: Step, slot: Slot, slot_id: int, bound: Rows[Bound]
) -> bool:
    """Whether a candidate passes all checks of the step."""
    if step.checked and not _fits(partition, join.target, step.checked, slot, slot_id, bound):
        return False
    return not step.keyed or _has_equal_keys(partition, join, step.keyed, slot, bound)
