"""How a query over live streams and archives goes about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from piestream.expressions.durations import Duration, DurationLike, as_duration

__all__ = ["LivePlan", "Order"]

Order = Literal["auto", "eager", "live-first", "archive-first"]


@dataclass(frozen=True)
class LivePlan:
    """A plan for queries over live streams and archives; the rows are the same whatever it says.

    Parameters
    ----------
    order
        ``"eager"`` looks for the matches of all queries in brackets everywhere; ``"live-first"`` for
        those in archives only around those in live streams; ``"archive-first"`` for those in live
        streams only around those in archives; ``"auto"`` chooses by what each is expected to cost.
    cache
        Whether matches that are known are kept for regions that overlap; left out, if it pays.
    recent
        How long rows stay in memory. Left out, as long as they may be needed. With less, what is older
        than that is read from the archive each time: by then it has to be there.

    >>> import piestream as ps
    >>> ps.LivePlan("live-first", cache=False)
    LivePlan(order='live-first', cache=False, recent=None)
    """

    order: Order = "auto"
    cache: bool | None = None
    recent: DurationLike | None = None

    def __post_init__(self) -> None:
        if self.order not in get_args(Order):
            allowed = ", ".join(map(repr, get_args(Order)))
            raise ValueError(f"the order of a plan is one of {allowed}, not {self.order!r}")
        if self.cache is not None and not isinstance(self.cache, bool):
            raise ValueError(f"cache is True or False, not {self.cache!r}")
        if self.recent is not None:
            as_duration(self.recent, "the recent buffer")

    @property
    def recent_length(self) -> Duration | None:
        """How long rows stay in memory."""
        return None if self.recent is None else as_duration(self.recent, "the recent buffer")
