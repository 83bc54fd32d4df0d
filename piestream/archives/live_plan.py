"""Which plan a query over live streams and archives follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from piestream.language.live_plan import LivePlan

if TYPE_CHECKING:
    from piestream.archives.live_stream import LiveStream

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """A plan that has been chosen, and why."""

    order: str
    caches: bool
    lazy_live: bool
    everywhere: tuple[int, ...]  # the parts over archives whose matches are looked for everywhere
    why: str


def choose(stream: LiveStream, plan: LivePlan) -> Choice:
    """The plan that a query follows."""
    archived = [n for n in range(len(stream.binding.parts)) if n not in stream.live]
    far = [n for n in archived if not stream.reaches[n].is_local]
    order = "live-first" if plan.order == "auto" else plan.order
    if order == "archive-first" and any(not stream.reaches[n].is_local for n in stream.live):
        order = "eager"
    everywhere = archived if order in ("eager", "archive-first") else far
    caches = plan.cache is not False
    return Choice(order, caches, order == "archive-first", tuple(everywhere), "")
