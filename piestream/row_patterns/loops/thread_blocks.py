"""Where threads with memory lie: a block a partition, of the nodes of their ways and then themselves."""

from __future__ import annotations

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import Array, Record, Words, kernel
from piestream.row_patterns.loops.records import BlocksHeader, Partition, Program
from piestream.row_patterns.loops.rows import BLOCKS, PATH, THREADS

__all__ = [
    "Node",
    "Thread",
    "drop_nodes_at_times",
    "load_threads",
    "new_node",
    "path_of",
    "save_threads",
    "thread_at",
    "thread_words",
]

#: So many nodes more than there were are not worth a look at which of them are needed.
_FEW_NODES = 64
#: A block of so many words is not worth to be cut.
_FEW_WORDS = 256


class Thread(Record):
    """One way in which a match can have come to a row."""

    state: int  # that which accepts, of a complete match that is unsure
    node: int
    start: int  # its first row, counted from the first of the partition
    is_unsure: int
    registers: Words


class Node(Record):
    """A row of a way: the state behind it, and the node of the row before."""

    state: int
    before: int


_HEAD = Thread.offset("registers")
_NODE = Node.size


@kernel
def thread_words(program: Program) -> int:
    """How many words a thread has."""
    return _HEAD + program.register_words


@kernel
def thread_at(program: Program, threads: Words, number: int) -> Thread:
    """One of the threads that lie one behind the other."""
    return Thread(at_word(threads, number * thread_words(program)))


# -- the block of a partition: nodes, then the threads of its last row ----------------------------


@kernel
def _reserve(partition: Partition, used: int, more: int, store: list[Array]) -> None:
    """Room for so many words more in the block of a partition."""
    if used + more <= partition.block_words:
        return
    words = 2 * (used + more)
    all_used = BlocksHeader(pointer(store[BLOCKS])).used
    store[BLOCKS] = ensure_capacity(store[BLOCKS], all_used, words)
    blocks = pointer(store[BLOCKS])
    copy_words(at_word(blocks, partition.block), at_word(blocks, all_used), used)
    header = BlocksHeader(blocks)
    header.used = all_used + words
    header.wasted += partition.block_words
    partition.block = all_used
    partition.block_words = words


@kernel
def nodes_of(partition: Partition, store: list[Array]) -> Words:
    return at_word(pointer(store[BLOCKS]), partition.block)


@kernel
def new_node(partition: Partition, state: int, before: int, store: list[Array]) -> int:
    """The number of a new node."""
    number = partition.n_nodes
    if (number + 1) * _NODE > partition.block_words:
        _reserve(partition, number * _NODE, _NODE, store)
    node = Node(at_word(nodes_of(partition, store), number * _NODE))
    node.state = state
    node.before = before
    partition.n_nodes += 1
    return number


@kernel
def load_threads(program: Program, partition: Partition, store: list[Array]) -> None:
    """Take the threads of a partition out of its block."""
    words = partition.n_following * thread_words(program)
    store[THREADS] = ensure_capacity(store[THREADS], 0, words)
    source = at_word(nodes_of(partition, store), partition.n_nodes * _NODE)
    copy_words(source, pointer(store[THREADS]), words)


@kernel
def save_threads(program: Program, partition: Partition, store: list[Array]) -> None:
    """Put the threads of a partition behind its nodes, and leave it a block that is not much longer."""
    drop_nodes_at_times(program, partition, store)
    words = partition.n_following * thread_words(program)
    used = partition.n_nodes * _NODE
    _reserve(partition, used, words, store)
    _give_room_back(partition, used + words, store)
    target = at_word(nodes_of(partition, store), used)
    copy_words(pointer(store[THREADS]), target, words)


@kernel
def _give_room_back(partition: Partition, used: int, store: list[Array]) -> None:
    """Cut the block of a partition that has far more words than are used."""
    room = 2 * max(used, _FEW_WORDS)
    if partition.block_words > 2 * room:
        BlocksHeader(pointer(store[BLOCKS])).wasted += partition.block_words - room
        partition.block_words = room


@kernel
def drop_nodes_at_times(program: Program, partition: Partition, store: list[Array]) -> None:
    """Drop the nodes that nothing needs, where there are many more than the last time."""
    if partition.n_nodes > 2 * partition.n_kept_nodes + _FEW_NODES:
        _drop_nodes(program, partition, store)


@kernel
def _drop_nodes(program: Program, partition: Partition, store: list[Array]) -> None:
    """Drop the nodes from which no thread, and no complete match, comes."""
    count = partition.n_nodes
    store[PATH] = ensure_capacity(store[PATH], 0, count)
    kept, nodes = pointer(store[PATH]), nodes_of(partition, store)
    for number in range(count):
        kept[number] = 0
    threads = pointer(store[THREADS])
    for number in range(partition.n_following):
        node = thread_at(program, threads, number).node
        if node != NONE:
            kept[node] = 1
    if partition.best_node != NONE:
        kept[partition.best_node] = 1
    for back in range(count):
        number = count - 1 - back
        before = nodes[number * _NODE + 1]
        if kept[number] != 0 and before != NONE:
            kept[before] = 1
    found = 0
    for number in range(count):
        if kept[number] != 0:
            old = Node(at_word(nodes, number * _NODE))
            before = old.before
            moved = Node(at_word(nodes, found * _NODE))
            moved.state = old.state
            moved.before = kept[before] if before != NONE else NONE
            kept[number] = found
            found += 1
    for number in range(partition.n_following):
        thread = thread_at(program, threads, number)
        if thread.node != NONE:
            thread.node = kept[thread.node]
    if partition.best_node != NONE:
        partition.best_node = kept[partition.best_node]
    partition.n_nodes = found
    partition.n_kept_nodes = found


@kernel
def path_of(partition: Partition, node: int, length: int, store: list[Array]) -> None:
    """Write the states of a way that has so many rows into the path."""
    store[PATH] = ensure_capacity(store[PATH], 0, length)
    path, nodes = pointer(store[PATH]), nodes_of(partition, store)
    at = node
    for back in range(length):
        path[length - 1 - back] = nodes[at * _NODE]
        at = nodes[at * _NODE + 1]
