"""From which rows and states a match is reached, of all rows at once, going backwards.

Behind each row and state there are three outcomes: a match, none, or that it depends on rows to come.
The successors of a state are tried in the order of preference; the first that leads to a match decides,
unless one before it may yet lead to one. This costs as much as there are rows and places, whatever the
pattern; a search that tries one way after the other may take exponentially long.
"""

from __future__ import annotations

from typing import Annotated

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word
from piestream.compiled.records import Record, Words, kernel
from piestream.row_patterns.loops.records import BITS, Frontier, Program

__all__ = ["KNOWN_OUTCOMES", "find_reach", "reached", "walk"]

#: So many outcomes are remembered, each in the place that its row's mask and the outcomes behind it have.
_MOST_KNOWN = 64


class _Known(Record):
    """The outcomes at a row, of patterns whose sets of states have one word."""

    is_used: int
    mask: int
    matching: int  # the outcomes behind the row
    unknown: int
    outcomes: Annotated[Words, 2]


_KNOWN_WORDS = _Known.size
#: Words that they take, behind those that all work with.
KNOWN_OUTCOMES = _MOST_KNOWN * _KNOWN_WORDS


@kernel
def _behind_the_last(program: Program, frontier: int, now: Words) -> None:
    """The outcomes of successors where there is no row to read: sets of matches and unknowns."""
    size = program.set_words
    for word in range(2 * size):
        now[word] = 0
    end = program.accept_at_end
    if frontier == Frontier.END:
        now[end // BITS] |= 1 << (end % BITS)
    elif frontier != Frontier.CUT:
        now[size + end // BITS] |= 1 << (end % BITS)
        if frontier == Frontier.MORE:
            for state in range(1, program.first_start):
                now[size + state // BITS] |= 1 << (state % BITS)


@kernel
def _at_row(program: Program, mask: int, behind: Words, now: Words) -> None:
    """The outcomes of successors that read a row of which the variables of ``mask`` hold."""
    size = program.set_words
    for word in range(size):
        readable = 0
        for variable in range(program.n_variables):
            if mask >> variable & 1:
                readable |= program.states_of[variable * size + word]
        now[word] = behind[word] & readable
        now[size + word] = behind[size + word] & readable


@kernel
def _decides(program: Program, state: int, now: Words) -> bool:
    """Whether a match comes before all that is unknown, in the order of preference."""
    size = program.set_words
    for at in range(program.successors_from[state], program.successors_from[state + 1]):
        target = program.successors[at]
        if now[target // BITS] >> (target % BITS) & 1:
            return True
        if now[size + target // BITS] >> (target % BITS) & 1:
            return False
    return False


@kernel
def _find_outcomes(program: Program, now: Words, here: Words) -> None:
    """The outcomes of all states, from those of their successors."""
    size = program.set_words
    now[program.accept // BITS] |= 1 << (program.accept % BITS)
    for word in range(2 * size):
        here[word] = 0
    for state in range(program.n_states):
        can_match = 0
        is_unknown = 0
        for word in range(size):
            following = program.successor_sets[state * size + word]
            can_match |= following & now[word]
            is_unknown |= following & now[size + word]
        bit = 1 << (state % BITS)
        if is_unknown == 0:
            if can_match != 0:
                here[state // BITS] |= bit
        elif can_match != 0 and _decides(program, state, now):
            here[state // BITS] |= bit
        else:
            here[size + state // BITS] |= bit


@kernel
def find_reach(
    program: Program, rows: Words, first: int, end: int, frontier: int, reach: Words, work: Words
) -> None:
    """The outcomes at the rows ``[first, end]``: a set of states that match, one of unknown ones.

    The outcome of a state at a row is what comes of reading that row, and more, from it. Most rows find
    theirs among those that were found last: it depends on the outcomes behind the row, and its mask.
    """
    size = program.set_words
    now, known = work, at_word(work, program.work_words)
    last = at_word(reach, (end - first) * 2 * size)
    _behind_the_last(program, frontier, now)
    _find_outcomes(program, now, last)
    for row in range(end - 1, first - 1, -1):
        here = at_word(reach, (row - first) * 2 * size)
        behind = at_word(here, 2 * size)
        mask = rows[row * program.row_words + 1]
        if size > 1:
            _at_row(program, mask, behind, now)
            _find_outcomes(program, now, here)
            continue
        mixed = behind[0] * 40503 ^ behind[1] * 30011 ^ mask * 10007
        found = _Known(at_word(known, (mixed >> 3 & _MOST_KNOWN - 1) * _KNOWN_WORDS))
        is_known = found.mask == mask and found.matching == behind[0]
        if found.is_used == 0 or not is_known or found.unknown != behind[1]:
            found.is_used = 1
            found.mask = mask
            found.matching, found.unknown = behind[0], behind[1]
            _at_row(program, mask, behind, now)
            _find_outcomes(program, now, found.outcomes)
        here[0], here[1] = found.outcomes[0], found.outcomes[1]


@kernel
def reached(program: Program, reach: Words, row: int, state: int, unknown: int) -> bool:
    """Whether the outcome of a state at a row, counted from the first, is a match, or ``unknown``."""
    word = row * 2 * program.set_words + unknown * program.set_words + state // BITS
    return reach[word] >> (state % BITS) & 1 != 0


@kernel
def walk(
    program: Program, rows: Words, first: int, row: int, end: int, frontier: int, reach: Words,
    state: int, path: Words,
) -> int:  # fmt: skip
    """The states of the rows of the match that begins at a row; gives how many rows it has.

    The outcome there is a match, so that each step takes the first successor that leads to one.
    """
    count = 0
    while True:
        chosen = NONE
        at = program.successors_from[state]
        while chosen == NONE and at < program.successors_from[state + 1]:
            target = program.successors[at]
            at += 1
            if target == program.accept:
                return count
            if target == program.accept_at_end:
                if row == end and frontier == Frontier.END:
                    return count
                continue
            if row == end:
                continue
            mask = rows[row * program.row_words + 1]
            if mask >> program.variable_of[target] & 1 == 0:
                continue
            if reached(program, reach, row + 1 - first, target, 0):
                chosen = target
        state = chosen
        path[count] = state
        count += 1
        row += 1
