"""What ``MATCH_RECOGNIZE`` says: one frozen value, a part of the query that it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from piestream.expressions.durations import Duration
from piestream.expressions.predicate import Predicate
from piestream.expressions.syntax import Node
from piestream.expressions.values import ValueExpression

__all__ = [
    "Alternation",
    "Anchor",
    "Concatenation",
    "EmptyMatches",
    "Exclusion",
    "MatchMode",
    "Measure",
    "PatternNode",
    "Permutation",
    "Repetition",
    "RowCondition",
    "RowItem",
    "RowPattern",
    "Skip",
    "SkipMode",
    "Variable",
]


@dataclass(frozen=True, slots=True)
class Variable:
    """``A``: one row of which the variable's condition holds."""

    name: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    """``A B C``: one after the other; without parts it is ``()``, which matches no row."""

    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """``A | B``: one of them, the first one preferred."""

    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """``A{2,5}``, as often as possible, or ``A{2,5}?``, as seldom; ``most`` None is without limit."""

    part: PatternNode
    least: int
    most: int | None
    is_greedy: bool = True


@dataclass(frozen=True, slots=True)
class Permutation:
    """``PERMUTE(A, B, C)``: in any order, preferred in the order of the list."""

    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """``{- A -}``: matched, but not among the rows of ALL ROWS PER MATCH."""

    part: PatternNode


@dataclass(frozen=True, slots=True)
class Anchor:
    """``^``, the start of a partition, or ``$``, its end."""

    at_start: bool


PatternNode = Union[
    Variable, Concatenation, Alternation, Repetition, Permutation, Exclusion, Anchor
]


class SkipMode(Enum):
    """Where the search goes on behind a match."""

    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"
    TO_FIRST = "TO FIRST"
    TO_LAST = "TO LAST"


@dataclass(frozen=True, slots=True)
class Skip:
    """``AFTER MATCH SKIP …``, to a row of a variable or of a subset where one is named."""

    mode: SkipMode = SkipMode.PAST_LAST_ROW
    variable: str | None = None


class MatchMode(Enum):
    """Which of the matches that there are is given; the extensions are those of DejaVu."""

    PREFERRED = ""
    INCREMENTAL = "INCREMENTAL MATCH"
    MAXIMAL = "MAXIMAL MATCH"


class EmptyMatches(Enum):
    """What ALL ROWS PER MATCH gives of matches without rows, and of rows without a match."""

    SHOW = "SHOW EMPTY MATCHES"
    OMIT = "OMIT EMPTY MATCHES"
    WITH_UNMATCHED = "WITH UNMATCHED ROWS"


@dataclass(frozen=True, slots=True)
class RowItem:
    """One value that a measure reads of a match.

    ``function`` is FIRST or LAST, an aggregate, or MATCH_NUMBER. The rows are those of ``variable``,
    which may be a subset; None is all rows of the match. A FIRST or LAST without a column is
    ``CLASSIFIER()``. ``offset`` counts rows of the variable, ``shift`` rows of the partition.
    Where it is an ``expression`` of one row whose value is read, its text is the ``column``.
    The rows are those up to the row of the result, or all where it ``is_final``; with ONE ROW PER
    MATCH these are the same.
    """

    function: str
    variable: str | None = None
    column: str | None = None
    is_final: bool = False
    offset: int = 0
    shift: int = 0
    expression: ValueExpression | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads.

        >>> RowItem("SUM", "A", "price").columns
        ('price',)
        """
        if self.expression is not None:
            return self.expression.names
        return () if self.column is None else (self.column,)


@dataclass(frozen=True, slots=True)
class Measure:
    """``LAST(UP.price) - FIRST(DOWN.price) AS rise``.

    The columns of its expression are items, by their texts.
    """

    alias: str
    expression: ValueExpression
    items: tuple[tuple[str, RowItem], ...]


@dataclass(frozen=True, slots=True)
class RowCondition:
    """``B AS B.price > A.price``: what a variable asks of the match so far, its own row included.

    The columns of ``memory`` and ``tree`` are items, by their texts. ``tree`` is the whole condition;
    ``memory`` what is left of it without the parts that read the row alone: those that must hold
    anyway are the predicate of the variable's symbol, and others are ``facts``, which are the symbols
    behind those of the variables.
    """

    variable: str
    text: str
    memory: Predicate = field(compare=False, repr=False)
    tree: Node = field(compare=False, repr=False)
    items: tuple[tuple[str, RowItem], ...] = field(compare=False, repr=False)  # those of ``memory``
    all_items: tuple[tuple[str, RowItem], ...] = field(compare=False, repr=False)
    facts: tuple[tuple[str, Predicate], ...] = field(default=(), compare=False, repr=False)
    #: The lengths of time that stand in it, by their texts.
    lengths: tuple[tuple[str, Duration], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RowPattern:
    """The parts of ``MATCH_RECOGNIZE`` but for its conditions, which are the query's symbols.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A+) DEFINE A AS x > 1)")
    >>> query.rows.pattern
    Repetition(part=Variable(name='A'), least=1, most=None, is_greedy=True)
    """

    pattern: PatternNode
    measures: tuple[Measure, ...]
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    all_rows: bool = False
    empty_matches: EmptyMatches = EmptyMatches.SHOW
    skip: Skip = Skip()
    within: Duration | None = None
    #: Of the variables whose conditions read other rows of the match.
    conditions: tuple[RowCondition, ...] = ()
    mode: MatchMode = MatchMode.PREFERRED

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the pattern, in the order in which they first stand in it.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        ...                  "PATTERN (A B* A) DEFINE A AS x > 1)")
        >>> query.rows.variables
        ('A', 'B')
        """
        return tuple(dict.fromkeys(_variables(self.pattern)))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the query's symbols: the variables, and what else conditions read of a row.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        ...                  "PATTERN (A B) DEFINE B AS B.x > A.x OR y LIKE 'n%')")
        >>> query.rows.symbols
        ('A', 'B', "B: y LIKE 'n%'")
        """
        facts = (name for condition in self.conditions for name, _ in condition.facts)
        return (*self.variables, *facts)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that measures, and conditions of more than one row, read of a match.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(A.y) AS n "
        ...                  "PATTERN (A B) DEFINE B AS B.x > A.x)")
        >>> sorted(query.rows.columns)
        ['x', 'y']
        """
        items = (item for measure in self.measures for _, item in measure.items)
        read = (name for item in items for name in item.columns)
        return frozenset((*read, *self.condition_columns))

    @property
    def condition_columns(self) -> tuple[str, ...]:
        """The columns that conditions of more than one row read of a match.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(A.y) AS n "
        ...                  "PATTERN (A B) DEFINE B AS B.x > A.x)")
        >>> query.rows.condition_columns
        ('x',)
        """
        items = (item for condition in self.conditions for _, item in condition.items)
        return tuple(dict.fromkeys(name for item in items for name in item.columns))

    def condition(self, variable: str) -> RowCondition | None:
        """The condition of a variable that reads other rows of the match.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        ...                  "PATTERN (A B) DEFINE B AS B.x > A.x)")
        >>> query.rows.condition("B").text
        'LAST(B.x) > LAST(A.x)'
        """
        return next((c for c in self.conditions if c.variable == variable), None)

    def members(self, name: str | None) -> tuple[str, ...]:
        """The variables that a name stands for: itself, those of a subset, or all.

        >>> import piestream as ps
        >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
        ...                  "PATTERN (A B) SUBSET U = (A, B) DEFINE A AS x > 1)")
        >>> query.rows.members("U"), query.rows.members("A")
        (('A', 'B'), ('A',))
        """
        if name is None:
            return self.variables
        return dict(self.subsets).get(name, (name,))


def _variables(node: PatternNode) -> list[str]:
    match node:
        case Variable(name):
            return [name]
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return [name for part in parts for name in _variables(part)]
        case Repetition(part) | Exclusion(part):
            return _variables(part)
        case Anchor():
            return []
