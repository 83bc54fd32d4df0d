"""Arrays that grow keep what they hold."""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity, ensure_column_capacity


def test_words_with_room_are_left_as_they_are() -> None:
    words = np.arange(20)
    assert ensure_capacity(words, 12, 8).size == 20
    larger = ensure_capacity(words, 12, 9)
    assert larger.size >= 12 + 9
    assert larger[:12].tolist() == words[:12].tolist()


def test_columns_that_are_made_longer_keep_what_is_used_of_them() -> None:
    """Four columns of five words, and three words that belong to none."""
    words = np.arange(23)
    for used in range(6):
        assert ensure_column_capacity(words, 4, used, 5 - used).size == words.size
        longer = ensure_column_capacity(words, 4, used, 6 - used)
        length = longer.size // 4
        assert length >= 6
        for column in range(4):
            kept = words[5 * column : 5 * column + used]
            assert longer[length * column : length * column + used].tolist() == kept.tolist()
