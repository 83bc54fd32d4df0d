"""Pairs in the order of the rows of x, and what relation each is."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, WordRows, Words, kernel


@kernel
def pairs_by_row(
    rows_array: Array, counts_array: Array, partners_array: Array, first_row: int, keep_all: bool
) -> tuple[Array, Array]:
    """The row of x and the partner of each pair, by row.

    ``rows_array`` has the row of each interval, ``counts_array`` how many partners it has.
    With ``keep_all`` a row without a partner makes a pair with the partner NONE.
    """
    n: int = rows_array.size
    rows = pointer(rows_array)
    counts = pointer(counts_array)
    partners = pointer(partners_array)
    places_array = np.zeros(n + 1, np.int64)
    places = pointer(places_array)
    for x in range(n):
        places[rows[x]] = max(counts[x], 1) if keep_all else counts[x]
    total = 0
    for row in range(n):
        count = places[row]
        places[row] = total
        total += count
    row_of_array = np.empty(total, np.int64)
    partner_of_array = np.empty(total, np.int64)
    row_of = pointer(row_of_array)
    partner_of = pointer(partner_of_array)
    source = 0
    for x in range(n):
        to = places[rows[x]]
        if keep_all and counts[x] == 0:
            row_of[to] = first_row + rows[x]
            partner_of[to] = NONE
        for _ in range(counts[x]):
            row_of[to] = first_row + rows[x]
            partner_of[to] = partners[source]
            source += 1
            to += 1
    keep_alive(places_array)
    return row_of_array, partner_of_array


@kernel
def _compared(xs: Words, x: int, ys: Words, y: int) -> int:
    """-1, 0 or 1 as one time is earlier than, the same as, or later than the other."""
    return (1 if xs[x] > ys[y] else 0) - (1 if xs[x] < ys[y] else 0)


@kernel
def orders_of(
    x_rows_array: Array, y_rows_array: Array, x_times: WordRows, y_times: WordRows
) -> Array:
    """The number of the endpoint order of each pair of rows; NONE where there is no row of y."""
    n: int = x_rows_array.size
    x_rows = pointer(x_rows_array)
    y_rows = pointer(y_rows_array)
    x_start = pointer(x_times[0])
    x_end = pointer(x_times[1])
    y_start = pointer(y_times[0])
    y_end = pointer(y_times[1])
    numbers_array = np.empty(n, np.int64)
    numbers = pointer(numbers_array)
    for pair in range(n):
        x = x_rows[pair]
        y = y_rows[pair]
        if y == NONE:
            numbers[pair] = NONE
            continue
        number = 27 * _compared(x_start, x, y_start, y) + 9 * _compared(x_start, x, y_end, y)
        number += 3 * _compared(x_end, x, y_start, y) + _compared(x_end, x, y_end, y)
        numbers[pair] = number + 40  # as `EndpointOrder.number`
    return numbers_array
