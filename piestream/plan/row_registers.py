"""The registers of conditions that read other rows of a match, and which of them matter where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from piestream.language.model import Query
from piestream.language.row_patterns import MatchMode
from piestream.plan.program import JoinKey
from piestream.row_patterns.automaton import RowAutomaton
from piestream.row_patterns.loops.records import Holding, Mode, Register, Step

__all__ = ["MOST_REGISTERS", "RowMemory"]

#: A register is a bit of a word.
MOST_REGISTERS = 62

_MODES = {
    MatchMode.PREFERRED: Mode.PREFERRED,
    MatchMode.INCREMENTAL: Mode.INCREMENTAL,
    MatchMode.MAXIMAL: Mode.MAXIMAL,
}


@dataclass
class RowMemory:
    """The words of a program by which conditions read other rows of a match."""

    numbers: Mapping[str, int] = field(default_factory=dict)  # of variables
    #: What each register keeps: which rows, which value of them.
    registers: list[dict[str, Any]] = field(default_factory=list)
    steps: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    #: By variable, the registers that its condition reads.
    read: dict[str, set[int]] = field(default_factory=dict)
    #: Texts of two columns that are compared, which have one dictionary.
    compared: tuple[JoinKey, ...] = ()
    n_words: int = 0
    context: int = 0  # rows before a match that conditions read
    horizon: int = 0  # rows behind the current one

    def words(self, query: Query, automaton: RowAutomaton) -> dict[str, Any]:
        """The fields of the program."""
        rows = query.rows
        assert rows is not None
        steps_from, steps = [0], []
        for variable in rows.variables:
            steps += self.steps.get(variable, [])
            steps_from.append(len(steps))
        longest = max(map(len, self.steps.values()), default=0)
        return {
            "has_memory": bool(self.steps) or rows.mode is not MatchMode.PREFERRED,
            "mode": _MODES[rows.mode],
            "horizon": self.horizon,
            "n_registers": len(self.registers),
            "register_words": self.n_words,
            "stack_words": 2 * longest + 6,
            "live": _live_registers(self, automaton),
            "steps_from": steps_from,
            "registers": [Register.packed(**each) for each in self.registers],
            "steps": [Step.packed(operator=o, operand=a, other=b) for o, a, b in steps],
        }


def _live_registers(memory: RowMemory, automaton: RowAutomaton) -> list[int]:
    """For each state of the program, the registers that are read on some way from it, a bit each."""
    n_places = len(automaton.variables)
    live = [0] * (n_places + 2)
    following = [automaton.later, *automaton.successors, automaton.first]
    needed = [0] * n_places
    changed = True
    while changed:
        changed = False
        for place, variable in enumerate(automaton.variables):
            read = sum(1 << number for number in memory.read.get(variable, ()))
            wanted = (read | live[place + 1]) & ~_overwritten(memory, automaton, place)
            changed |= wanted != needed[place]
            needed[place] = wanted
        for state, targets in enumerate(following):
            for target in targets:
                if target >= 0:
                    live[state] |= needed[target]
    return live


def _overwritten(memory: RowMemory, automaton: RowAutomaton, place: int) -> int:
    """The registers that a row of a place replaces, whatever they held."""
    return sum(1 << number for number in _replaced(memory, automaton.variables[place]))


def _replaced(memory: RowMemory, variable: str) -> Iterator[int]:
    for number, each in enumerate(memory.registers):
        is_last = each["holding"] == Holding.LAST and not each["skipped"]
        if is_last and each["variables"] >> memory.numbers[variable] & 1:
            yield number
