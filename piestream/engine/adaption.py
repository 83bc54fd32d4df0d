"""Join orders that follow the live state: sampled now and then, changed where it pays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from piestream.copies import Copied
from piestream.joins.result_rows import Samples, SideSample
from piestream.plan.join_order import Estimate
from piestream.plan.program import CompiledQuery, write_join_orders

Words = NDArray[np.int64]

#: After so many steps of extension the state is sampled again, in so many partitions and intervals
#: of each: while there are few, no order is worth a look. The orders are changed where some number
#: of partners is more than twice, or less than half, of what it was.
SAMPLE_STEPS = 1 << 19
_SAMPLE_PARTITIONS = 16
_SAMPLE_INTERVALS = 128
_CHANGE_FACTOR = 2.0


class JoinOrderAdaption(Copied):
    """The join orders in one program, and the estimate that they suit."""

    def __init__(
        self, compiled: CompiledQuery, program: Words, estimate: Estimate | None = None
    ) -> None:
        self.enabled = compiled.join_orders.adaptive
        self.estimate = estimate or Estimate()
        self._join_orders = compiled.join_orders
        self._program = program
        self._sampled_at = 0  # steps

    def adapt(self, steps: int, partition_words: Words, pool: Words, partitions: Words) -> None:
        """Sample these partitions, if enough steps have been taken, and order the joins anew."""
        if not self.enabled or steps - self._sampled_at < SAMPLE_STEPS:
            return
        self._sampled_at = steps
        estimate = self.sampled(partition_words, pool, partitions)
        if estimate.partners and estimate.differs(self.estimate, _CHANGE_FACTOR):
            self.estimate = estimate
            write_join_orders(self._program, self._join_orders, estimate)

    def sampled(self, partition_words: Words, pool: Words, partitions: Words) -> Estimate:
        """The average numbers of partners, by a sample of the live intervals."""
        # compiled when first needed, which for many queries is never
        from piestream.joins.maintenance import sample_statistics

        n_sides = 2 * len(self._join_orders.edges)
        words = np.zeros(n_sides * SideSample.size, np.int64)
        sample_statistics(
            self._program,
            partition_words,
            pool,
            partitions[:_SAMPLE_PARTITIONS],
            _SAMPLE_INTERVALS,
            words,
        )
        samples = Samples.over(words).by_side
        return Estimate.from_samples([(samples[n], samples[n + 1]) for n in range(0, n_sides, 2)])
