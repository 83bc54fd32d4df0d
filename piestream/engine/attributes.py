"""The columns that RETURN aggregates, as words for the detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.dictionaries import Dictionary
from piestream.engine.projection import ATTRIBUTE
from piestream.plan.binding import Binding
from piestream.plan.columns import CODE, FLOAT, Attribute

__all__ = ["AttributeColumns", "Remap"]

Words = NDArray[np.int64]
#: Called with an attribute's number and the new code of each old one, to renumber codes that are held.
Remap = Callable[[int, Words], None]


class AttributeColumns:
    """Makes words of a query's attributes; of values that are no numbers it keeps dictionaries.

    Attributes of one column have one dictionary. When its codes change, ``remap`` is told of each
    attribute that has it.
    """

    def __init__(
        self, binding: Binding, known: Mapping[Attribute, Dictionary] | None = None
    ) -> None:
        self._binding = binding  # in a copy the same
        self._of = _dictionaries(binding, known or {})

    @property
    def by_attribute(self) -> dict[Attribute, Dictionary]:
        """The dictionaries, as those of another binding may go on with them."""
        return {self._binding.attributes[number]: one for number, one in self._of.items()}

    @property
    def values(self) -> dict[int, pl.Series]:
        """The values of each dictionary in the order of their codes, by the number of an attribute."""
        return {number: one.values for number, one in self._of.items()}

    def restore(self, values: Sequence[pl.Series]) -> None:
        """Go on with the values of a stored state, in the order of `values`."""
        for dictionary, some in zip(self._of.values(), values, strict=True):
            dictionary.values = some

    def code(self, number: int, value: Any) -> int | None:
        """The code of one value; None if it is new."""
        return self._of[number].code(value)

    def words(self, rows: pl.DataFrame, remap: Remap) -> tuple[Words, NDArray[np.uint8]]:
        """The attributes of projected rows as words, and where they have a value."""
        for number, dictionary in self._of.items():
            new_codes = dictionary.learn(rows[f"{ATTRIBUTE}{number}"])
            if new_codes is not None:
                self._tell(dictionary, new_codes, remap)
        attributes = self._binding.attributes
        columns = np.zeros((len(attributes), len(rows) if attributes else 0), np.int64)
        known = np.zeros(columns.shape, np.uint8)
        for number, attribute in enumerate(attributes):
            column = rows[f"{ATTRIBUTE}{number}"]
            known[number] = column.is_not_null().to_numpy() if column.null_count() else 1
            if attribute.form == CODE:
                column = self._of[number].codes(column)
            if column.null_count():
                column = column.fill_null(0.0 if attribute.form == FLOAT else 0)
            values = column.to_numpy()
            columns[number] = values.view(np.int64) if attribute.form == FLOAT else values
        return columns, known

    def compact(self, used_codes: Callable[[int, int], NDArray[np.bool_]], remap: Remap) -> None:
        """Forget values that no interval has, where they are the most of a dictionary.

        ``used_codes`` says of an attribute which of so many codes are in use.
        """
        used: dict[Dictionary, NDArray[np.bool_]] = {}
        for number, dictionary in self._of.items():
            found = used_codes(number, len(dictionary.values))
            used[dictionary] = found | used[dictionary] if dictionary in used else found
        for dictionary, some in used.items():
            if 2 * some.sum() < some.size:
                self._tell(dictionary, dictionary.keep(some), remap)

    def _tell(self, dictionary: Dictionary, new_codes: Words, remap: Remap) -> None:
        for number in self._numbers_of(dictionary):
            remap(number, new_codes)

    def _numbers_of(self, dictionary: Dictionary) -> Iterator[int]:
        return (number for number, one in self._of.items() if one is dictionary)


def _dictionaries(binding: Binding, known: Mapping[Attribute, Dictionary]) -> dict[int, Dictionary]:
    """The dictionaries of a query's attributes, by their numbers; those that are known go on."""
    attributes = binding.attributes
    firsts = binding.dictionary_of
    made: dict[int, Dictionary] = {}
    for number, first in firsts.items():
        attribute = attributes[number]
        if attribute in known or first not in made:
            made[first] = known.get(attribute) or Dictionary(binding.attribute_type(attribute))
    return {number: made[first] for number, first in firsts.items()}
