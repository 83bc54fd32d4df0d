"""The compiled automaton against runs and intervals: never too early, never too late."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from piestream.automata import LL, LP, PL, compile_pair, decision_points, read_by_automaton
from piestream.automata.letters import EXPRESSIONS
from piestream.relations import Relation, names

R = Relation
Run = tuple[int, int | None]
LETTERS = 4
GROUPS = [
    R.OVERLAPS | R.FINISHED_BY | R.CONTAINS,
    R.STARTS | R.EQUALS | R.STARTED_BY,
    R.DURING | R.FINISHES | R.OVERLAPPED_BY,
]


def runs_of(word: tuple[int, ...], bit: int) -> list[Run]:
    """The runs of one symbol in a word of letter codes: [start, end), end None while open."""
    runs: list[Run] = []
    for at, letter in enumerate(word):
        holds, held = letter & bit, at > 0 and word[at - 1] & bit
        if holds and not held:
            runs.append((at, None))
        elif held and not holds:
            runs[-1] = (runs[-1][0], at)
    return runs


def relation_at_the_end(word: tuple[int, ...], x: Run, y: Run) -> int:
    """The relation as a bit of Relation, the precise one where it holds; 0 while a run is open.

    Written from the endpoint column of the contract, on its own.
    """
    (xs, xe), (ys, ye) = x, y
    if xe is None or ye is None:
        return 0
    if xe < ys:
        return R.BEFORE if any(word[xe:ys]) else R.FOLLOWED_BY
    if ye < xs:
        return R.AFTER if any(word[ye:xs]) else R.FOLLOWS
    if xe == ys:
        return R.MEETS
    if ye == xs:
        return R.MET_BY
    if xs == ys:
        return R.EQUALS if xe == ye else R.STARTS if xe < ye else R.STARTED_BY
    if xs < ys:
        return R.FINISHED_BY if xe == ye else R.OVERLAPS if xe < ye else R.CONTAINS
    return R.FINISHES if xe == ye else R.DURING if xe < ye else R.OVERLAPPED_BY


class Truth:
    """Every pair of runs at every word up to a length, and what it may still become.

    A row is one pair at one word. ``possible`` is the union of the pair's relations over all
    ways the word can go on for ``horizon`` letters (two always suffice to end both runs), and
    ``possible_before`` the same one letter earlier, -1 if the pair was not there yet.
    """

    def __init__(self, length: int, alphabet: tuple[int, ...], horizon: int = 2) -> None:
        self.alphabet, self.length = alphabet, length
        same = alphabet == (0, 3)
        futures = list(product(alphabet, repeat=horizon))
        rows = []
        memory: dict[tuple[int, ...], dict[tuple[int, int], int]] = {(): {}}
        self.words: list[tuple[int, ...]] = []
        for n in range(1, length + 1):
            for word in product(alphabet, repeat=n):
                at_word = len(self.words)
                self.words.append(word)
                started_x, started_y = runs_of(word, 2), runs_of(word, 1)
                possible: dict[tuple[int, int], int] = {}
                for future in futures:
                    whole = word + future
                    all_x, all_y = runs_of(whole, 2), runs_of(whole, 1)
                    for i in range(len(started_x)):
                        for j in range(len(started_y)):
                            if same and i == j:
                                continue  # one interval: not a pair
                            found = relation_at_the_end(whole, all_x[i], all_y[j])
                            possible[i, j] = possible.get((i, j), 0) | int(found)
                memory[word] = possible
                before = memory[word[:-1]]
                ended_before = word[-2] == 0 if n > 1 else True
                for (i, j), relations in possible.items():
                    back = len(started_x) - 1 - i, len(started_y) - 1 - j
                    kind = {(0, 0): LL, (1, 0): PL, (0, 1): LP}.get(back, 0)
                    ended_now = kind == LL and word[-1] == 0 and not ended_before
                    rows.append((at_word, kind, relations, before.get((i, j), -1), ended_now))
        table = np.array(rows, dtype=np.int64)
        self.word, self.kind, self.possible, self.possible_before, self.ended = table.T

    def outputs(self, relations: R, *, read: R) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the automaton has to give at every word: decides, relation, completes."""
        outside = ~int(read)
        decided = self.possible & outside == 0
        before = (self.possible_before != -1) & (self.possible_before & outside == 0)
        newly = decided & ~before
        assert not (newly & (self.kind == 0)).any(), "decided, but not of a kind the tables know"
        n = len(self.words)
        decides = np.zeros(n, dtype=np.int64)
        np.add.at(decides, self.word[newly], self.kind[newly])  # adds up wrongly if twice
        single = self.possible & (self.possible - 1) == 0
        known = decided & single & (self.kind == LL) & (self.possible_before != self.possible)
        relation = np.full(n, -1)
        relation[self.word[known]] = np.log2(self.possible[known]).astype(int)
        completes = np.zeros(n, dtype=np.int64)
        completes[self.word[decided & (self.ended == 1)]] = 1
        return decides, relation, completes

    def walked(self, automaton) -> tuple[np.ndarray, ...]:  # type: ignore[no-untyped-def]
        """What the tables do give at every word, in the same order."""
        letters = np.array(self.alphabet)
        states = np.zeros(1, dtype=np.int64)
        found: list[list[np.ndarray]] = [[], [], []]
        for _ in range(self.length):
            at = states[:, None], letters[None, :]
            for sink, table in zip(
                found, (automaton.decides, automaton.relation, automaton.completes), strict=True
            ):
                sink.append(table[at].ravel().astype(np.int64))
            states = automaton.next_state[at].ravel().astype(np.int64)
        return tuple(np.concatenate(part) for part in found)

    def check(self, relations: R) -> None:
        equal_predicates = self.alphabet == (0, 3)
        automaton = compile_pair(relations, equal_predicates)
        expected = self.outputs(relations, read=read_by_automaton(relations))
        for what, right, found in zip(
            ("decides", "relation", "completes"), expected, self.walked(automaton), strict=True
        ):
            wrong = np.flatnonzero(right != found)
            if len(wrong):
                word = "".join("OIZE"[letter] for letter in self.words[wrong[0]])
                raise AssertionError(
                    f"{names(relations)} at the end of {word}: {what} is {found[wrong[0]]}, "
                    f"but by the intervals it is {right[wrong[0]]}"
                )


@cache
def truth(length: int, equal_predicates: bool = False) -> Truth:
    return Truth(length, (0, 3) if equal_predicates else (0, 1, 2, 3))


def every_union_of_groups() -> list[R]:
    blocks = [R.FOLLOWED_BY, R.FOLLOWS, R.MEETS | R.MET_BY, *GROUPS]
    return [
        R(sum(block for at, block in enumerate(blocks) if chosen >> at & 1))
        for chosen in range(1, 1 << len(blocks))
    ]


def test_every_relation_and_every_group_over_all_words_of_seven_letters() -> None:
    for relations in [*R, *every_union_of_groups(), R(sum(R))]:
        truth(7).check(relations)


def test_thousands_of_random_sets_over_all_words_of_five_letters() -> None:
    rng = random.Random(20250101)
    for _ in range(2500):
        truth(5).check(R(rng.randrange(1, 1 << 15)))


def test_all_sets_of_the_relations_that_wait_for_an_end() -> None:
    waiting = [r for r in R if any(r & group for group in GROUPS)]
    assert len(waiting) == 9
    for chosen in range(1, 1 << len(waiting)):
        truth(4).check(R(sum(r for at, r in enumerate(waiting) if chosen >> at & 1)))


def test_equal_predicates_leave_only_a_run_and_its_successor() -> None:
    for relations in range(1, 1 << 15, 7):
        truth(9, True).check(R(relations))
    everything_precise = R(sum(R)) & ~(R.BEFORE | R.AFTER)
    assert compile_pair(everything_precise, True).kinds == PL | LP
    assert compile_pair(everything_precise).kinds == LL | PL | LP
    assert compile_pair(R.MEETS | R.EQUALS, True).kinds == 0


@pytest.mark.parametrize(
    ("relations", "word", "decided_at"),
    [
        (GROUPS[0], "ZEI", 1),  # the contract's example: when y starts inside x
        (GROUPS[0] & ~R.CONTAINS, "ZEI", 2),
        (GROUPS[1], "EI", 0),
        (R.OVERLAPS, "ZEI", 2),
        (R.MEETS, "ZI", 1),
        (R.FOLLOWED_BY, "ZOOI", 3),
        (R.STARTS, "EEI", 2),
    ],
)
def test_the_moments_that_the_contract_names(relations: R, word: str, decided_at: int) -> None:
    decided = [at for at, step in enumerate(compile_pair(relations).walk(word)) if step[1]]
    assert decided == [decided_at]


@pytest.mark.parametrize("relation", list(EXPRESSIONS))
def test_the_completion_ends_where_the_later_of_two_runs_ends(relation: R) -> None:
    """Theorem. A stream ends with a completion of r if and only if there are a run of x and a
    run of y in relation r of which the one has ended by, and the other (or both) at, its last
    event; whatever else began meanwhile."""
    completions = "|".join(expression.completion for expression in EXPRESSIONS[relation])
    ends = NFA.from_regex(f"(O|I|Z|E)*({completions})", input_symbols=set("OIZE"))
    judge = DFA.from_nfa(ends)
    for n in range(1, 7):
        for word in product(range(4), repeat=n):
            completed = any(
                relation_at_the_end(word, x, y) == relation and n - 1 in (x[1], y[1])
                for x in runs_of(word, 2)
                for y in runs_of(word, 1)
            )
            letters = "O" + "".join("OIZE"[letter] for letter in word)
            assert judge.accepts_input(letters) == completed, letters


def test_three_pairs_at_once() -> None:
    relations = GROUPS[1] | R.FOLLOWED_BY | R.FOLLOWS
    assert [step[1] for step in compile_pair(relations).walk("EOE")] == [LL, 0, LL | PL | LP]


def sets_to_look_at() -> list[tuple[R, bool]]:
    rng = random.Random(7)
    drawn = [R(rng.randrange(1, 1 << 15)) for _ in range(100)]
    return [(s, same) for s in [*R, *every_union_of_groups(), *drawn] for same in (False, True)]


def test_a_repeated_letter_has_no_output_and_stays() -> None:
    for relations, same in sets_to_look_at():
        automaton = compile_pair(relations, same)
        assert automaton.next_state[0, 0] == 0  # at the start O is a repeated letter
        for letter in range(LETTERS):
            after = automaton.next_state[:, letter]
            assert (automaton.next_state[after, letter] == after).all(), relations
            assert not automaton.decides[after, letter].any(), relations
            assert (automaton.relation[after, letter] == -1).all(), relations
            assert not automaton.completes[after, letter].any(), relations


def test_no_state_is_unreachable_or_does_what_another_does() -> None:
    for relations, same in sets_to_look_at():
        automaton = compile_pair(relations, same)
        letters = [0, 3] if same else [0, 1, 2, 3]
        n = automaton.states
        reached = {0}
        for state in range(n):  # numbered breadth first: every state is reached from lower ones
            assert state in reached
            reached.update(automaton.next_state[state, letters].tolist())
        outputs = np.stack([automaton.decides, automaton.relation, automaton.completes], axis=2)
        differ = (outputs[:, None, letters] != outputs[None, :, letters]).any(axis=(2, 3))
        for _ in range(n):
            after = automaton.next_state[:, letters]
            differ = differ | differ[after[:, None, :], after[None, :, :]].any(axis=2)
        assert (differ | np.eye(n, dtype=bool)).all(), f"{names(relations)} has states to merge"


def test_the_tables_are_what_the_inner_loops_expect() -> None:
    automaton = compile_pair(R.OVERLAPS | R.MEETS)
    for table, kind in (
        (automaton.next_state, np.uint8),
        (automaton.decides, np.uint8),
        (automaton.relation, np.int8),
        (automaton.completes, np.uint8),
    ):
        assert table.dtype == kind
        assert table.shape == (automaton.states, LETTERS)
        assert table.flags.c_contiguous
        assert not table.flags.writeable


def test_an_automaton_is_a_value() -> None:
    automaton = compile_pair(R.OVERLAPS)
    assert compile_pair(R.OVERLAPS) is automaton
    again = pickle.loads(pickle.dumps(automaton))
    assert again == automaton
    assert hash(again) == hash(automaton)
    assert (again.next_state == automaton.next_state).all()
    assert compile_pair(R.MEETS) != automaton != compile_pair(R.OVERLAPS, True)


def test_importing_the_room_does_not_import_automata_lib() -> None:
    heavy = "{'automata', 'networkx', 'pandas', 'polars', 'numba'}"
    code = f"import sys, piestream.automata; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    # Polars may come with the package itself; this room must not be the one that brings it.
    assert loaded.returncode == 0, loaded.stderr
    assert "'automata'" not in loaded.stdout
    assert "networkx" not in loaded.stdout


def test_decision_points_name_the_endpoint_and_what_the_group_gains() -> None:
    at = {p.relation: p for p in decision_points(GROUPS[0] | R.MEETS | R.STARTS | R.BEFORE)}
    assert at[R.OVERLAPS].endpoints == at[R.CONTAINS].endpoints == ("y.ts",)
    assert at[R.OVERLAPS].earlier
    assert at[R.OVERLAPS].alone == ("x.te",)
    assert at[R.FINISHED_BY].alone == ("x.te", "y.te")
    assert at[R.MEETS].endpoints == ("y.ts", "x.te")
    assert not at[R.MEETS].earlier
    assert at[R.STARTS].endpoints == ("x.te",)
    assert not at[R.STARTS].earlier
    assert at[R.BEFORE].endpoints == ("y.ts",)
    assert at[R.BEFORE].by_endpoint_index
    both = decision_points(GROUPS[1])
    assert {p.endpoints for p in both} == {("x.ts", "y.ts")}
    assert [p.relation for p in decision_points(R.FOLLOWED_BY | R.MEETS, True)] == [R.FOLLOWED_BY]
