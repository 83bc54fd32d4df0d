"""The part of a program about ONCE PER, NO OVERLAP, COOLDOWN and LIMIT."""

from __future__ import annotations

from typing import Any

from piestream.compiled.constants import NONE
from piestream.joins import state_records
from piestream.plan.draft import ProgramDraft, bits_word, length_word
from piestream.relations import Relation


def _may_begin_with_report(draft: ProgramDraft) -> bool:
    """Whether a match of runs may be reported at the event with which all of them begin."""
    together = Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY
    return len(draft.present) > 1 and all(
        constraint.relations & together == together for constraint in draft.query.constraints
    )


def limit_fields(draft: ProgramDraft, at: int) -> dict[str, Any]:
    """The program's fields about the limits on what is emitted; ``at`` is the place of their words."""
    limits = draft.query.limits
    names = [symbol.name for symbol in draft.query.symbols]
    once = [names.index(name) for name in limits.once_per]
    judges = bool(limits) and draft.query.where is None
    # no second match of an event can be given, unless it begins with it; of rows, several may
    one_an_event = limits.cooldown is not None or (
        limits.no_overlap and not draft.rows and not _may_begin_with_report(draft)
    )
    # NO OVERLAP tells instants of one time apart, which the window's floor does not: what comes first
    # may be left out by it
    is_floor = not (limits.no_overlap and draft.query.is_sequenced)
    apart = [] if one_an_event else once
    return {
        "given_at": at if limits else NONE,
        "given_ring": draft.n_rings - 1 - 2 * bool(draft.absent) if once else NONE,
        "given_width": state_records.GivenMatch.size + 2 * len(once),
        "given_kept": min(
            (draft.symbols[s]["kept"] for s in once if not draft.symbols[s]["kept_from"]),
            default=NONE,
        ),
        "judges": judges,
        "limit": NONE if limits.limit is None else limits.limit,
        "cooldown": NONE if limits.cooldown is None else length_word(draft.ticks.cooldown),
        "no_overlap": limits.no_overlap,
        "n_once": len(once),
        "once": once,
        "once_symbols": bits_word(once),
        "finds_first": judges
        and is_floor
        and (one_an_event or bool(once))
        and not draft.absent,  # the first that is found need not be given
        "n_apart": len(apart),
        "apart": apart,
        "apart_symbols": bits_word(apart),
        "given_once": bits_word(once)
        if judges and len(once) == 1 and not draft.rows | draft.bridged
        else 0,
    }
