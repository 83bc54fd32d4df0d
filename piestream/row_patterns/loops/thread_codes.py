"""Codes of texts in the registers of threads, which change as new texts come."""

from __future__ import annotations

from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.aggregates import CellKind
from piestream.row_patterns.loops.records import Holding, Partition, Program, Register, Truth
from piestream.row_patterns.loops.thread_blocks import Node, Thread, thread_words

__all__ = ["remap_thread_codes"]

_KNOWN = int(Truth.KNOWN)
_NODE = Node.size
_REGISTERS = Thread.offset("registers")


@kernel
def _remap_register(register: Register, words: Words, new_codes: Words) -> None:
    """Give the values of a register, each behind the word that says whether it is known, new codes."""
    first, count = 0, register.skipped + 1
    if register.holding == Holding.FIRST:
        first, count = 1, 1
    elif register.holding == Holding.CELL:
        kind = register.cell[0].kind
        count = 1 if kind == CellKind.MIN_INT or kind == CellKind.MAX_INT else 0
    for number in range(count):
        value = at_word(words, register.place + first + 2 * number)
        if value[0] == _KNOWN:
            value[1] = new_codes[value[1]]


@kernel
def remap_thread_codes(
    program_array: Array, partitions_array: Array, partition_words: int, n_partitions: int,
    blocks_array: Array, column: int, new_codes_array: Array,
) -> None:  # fmt: skip
    """Give the values of a column that threads hold their new codes."""
    program = Program(pointer(program_array))
    new_codes = pointer(new_codes_array)
    width = thread_words(program)
    for number in range(n_partitions):
        place = at_word(pointer(partitions_array), number * partition_words)
        partition = Partition(place, program)
        threads = at_word(pointer(blocks_array), partition.block + partition.n_nodes * _NODE)
        for thread in range(partition.n_following):
            words = at_word(threads, thread * width + _REGISTERS)
            for each in range(program.n_registers):
                if program.registers[each].column == column:
                    _remap_register(program.registers[each], words, new_codes)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(blocks_array)
    keep_alive(new_codes_array)
