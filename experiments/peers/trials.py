"""The plan of a method that has several: which is the quickest is found by trials before the clock starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from time import process_time
from typing import TYPE_CHECKING, Any

from experiments.peers.pattern import Pattern, Result
from experiments.peers.peer import BITS, Matcher, Peer

if TYPE_CHECKING:
    from experiments.streams.cases import Case

__all__ = ["RULE", "plans_of", "quickest", "run_of"]

#: The shares of the stream that trials are run on, one after another; the last one, and those of the others
#: that have so many events.
_SHARES = (64, 16, 4)
_FEWEST = 1_000
#: A plan that takes so many times as long as the best is tried no further.
_OUT = 2.0
#: A trial that takes less CPU time than this is repeated, and the least counts.
_ENOUGH, _MOST_RUNS = 0.1, 3
#: Where the best takes more CPU seconds than this, nothing larger is tried.
_LONG = 5.0

RULE = (
    "Every plan that can be had is tried over the first 1/64, 1/16 and 1/4 of the stream, before the "
    f"clock starts; who takes more than {_OUT:g} times as long as the best is out, and the quickest over "
    "the last is measured"
)


def plans_of(
    orders: Sequence[str], keys: Sequence[str]
) -> Callable[[Pattern, bool], Mapping[str, Mapping[str, Any]]]:
    """The plans of a method for a pattern: every order of joins, with every use of the key if there is one.

    >>> plans = plans_of(("planner", "written"), ("hash", "none"))
    >>> list(plans(Pattern.chain(3), False))
    ['planner', 'written']
    >>> plans(Pattern.chain(2), True)
    {'planner, key: hash': {'order': 'planner', 'key': 'hash'}, 'planner, key: none': {'order': 'planner', 'key': 'none'}}
    """

    def plans(pattern: Pattern, partitioned: bool) -> Mapping[str, Mapping[str, Any]]:
        several = orders if pattern.n_symbols > 2 else orders[:1]
        if not partitioned:
            return {order: {"order": order} for order in several}
        return {
            f"{order}, key: {key}": {"order": order, "key": key}
            for order, key in product(several, keys)
        }

    return plans


def run_of(matcher: Matcher, case: Case, form: str) -> Callable[[], Result]:
    """A run of a prepared method on a case."""
    if form == BITS:
        return matcher.over(*case.bits, case.apart)
    return matcher.on_frame(case)


def quickest(case: Case, peer: Peer, form: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of the quickest plan of a method on a case."""
    assert peer.plans is not None
    plans = dict(peer.plans(case.pattern, case.key is not None))
    heads = [max(case.events // share, 1) for share in _SHARES]
    for events in [*(events for events in heads[:-1] if events >= _FEWEST), heads[-1]]:
        head = case.head(events)
        took = {}
        for name, plan in plans.items():
            run = run_of(peer.prepare(case.pattern, **options, **plan), head, form)
            took[name] = _least(run)
        least = min(took.values())
        plans = {name: plans[name] for name in sorted(took, key=took.__getitem__)
                 if took[name] <= _OUT * least}  # fmt: skip
        if len(plans) == 1 or least > _LONG:
            break
    return next(iter(plans.values()))


def _least(run: Callable[[], Result]) -> float:
    """The CPU time of a run, of several if it is short."""
    took: list[float] = []
    while len(took) < _MOST_RUNS and sum(took) < _ENOUGH:
        before = process_time()
        run()
        took.append(process_time() - before)
    return min(took)
