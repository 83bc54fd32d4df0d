"""The part of a program about absences: the records of NOT groups."""

from __future__ import annotations

from typing import Any

from piestream.compiled.constants import NONE
from piestream.joins import records, state_records
from piestream.plan.draft import (
    PRECISE,
    ProgramDraft,
    bits_word,
    distance_records,
    length_word,
)
from piestream.relations import PRECISE_FORM, Relation, convex_parts, inverse


def add_absences(draft: ProgramDraft) -> None:
    """The records of what may not be there, and of what each says of intervals of a match."""
    for absence, lengths_of in zip(draft.query.absences, draft.ticks.absent_distances, strict=True):
        first, absent = len(draft.absent_pairs), draft.numbers[absence.symbol]
        same = [s for s in draft.present if draft.same_predicate(s, absent)]
        for spec, lengths in zip(absence.constraints, lengths_of, strict=True):
            is_x = spec.x == absence.symbol
            other = draft.numbers[spec.y if is_x else spec.x]
            allowed = spec.relations if is_x else inverse(spec.relations)
            if other in same and other not in draft.rows:  # runs of one predicate
                allowed &= Relation.BEFORE | Relation.AFTER | PRECISE
            for wide, precise in PRECISE_FORM.items():
                if allowed & wide:
                    allowed &= ~precise
            part, distance = len(draft.absent_parts), len(draft.distances)
            draft.absent_parts += map(int, convex_parts(allowed))
            draft.distances += distance_records(absence.symbol, spec.distances, lengths)
            draft.absent_pairs.append(
                records.AbsentPair.packed(
                    symbol=other,
                    allowed=int(allowed),
                    part=part,
                    part_end=len(draft.absent_parts),
                    distance=distance,
                    distance_end=len(draft.distances),
                    followed=_gap_word(draft, absent, other, bool(allowed & Relation.FOLLOWS)),
                    followed_by_other=_gap_word(
                        draft, other, absent, bool(allowed & Relation.FOLLOWED_BY)
                    ),
                )
            )
            if allowed & Relation.FOLLOWS:
                draft.begin_deciding |= {absent, other}
        stream = draft.query.streams[draft.query.symbols[absent].stream]
        late = stream.lateness
        draft.absences.append(
            records.Absence.packed(
                symbol=absent,
                pair=first,
                pair_end=len(draft.absent_pairs),
                same=bits_word(same),
                begins_known=stream.known_by == "ts",
                late=length_word(draft.ticks.late[absent]),
                late_since_end=late is not None and late.which == "te",
                may_come_at_end=late is None or late.may_come_at_end,
            )
        )


def _gap_word(draft: ProgramDraft, symbol: int, other: int, needed: bool) -> int:
    """The word of a symbol's slots that says where the gap before an interval begins, or NONE."""
    if not needed:
        return NONE
    for each in (symbol, other):
        draft.track_ends(each, True)
    draft.gaps[symbol].append((other, draft.slots.take(symbol)))
    return draft.gaps[symbol][-1][1]


def awaited_words(draft: ProgramDraft) -> int:
    """How many words a partition has for its matches that are awaited."""
    if not draft.absences:
        return 0
    return state_records.Awaited.offset("first") + _n_lists(draft)


def absence_fields(draft: ProgramDraft, at: int) -> dict[str, Any]:
    """The program's fields about absences; ``at`` is the place of the partition's words of `Awaited`."""
    return {
        "n_present": len(draft.present),
        "absent": bits_word(draft.absent),
        "n_absences": len(draft.absences),
        "absences": draft.absences,
        "absent_pairs": draft.absent_pairs,
        "absent_parts": draft.absent_parts,
        "absences_at": at if draft.absences else NONE,
        "awaited_ring": draft.n_rings - 2 if draft.absences else NONE,
        "awaited_width": state_records.AwaitedMatch.offset("ids")
        + len(draft.symbols)
        + 2 * _n_lists(draft),
        "gaps": [records.Gap.packed(other=o, word=w) for some in draft.gaps for o, w in some],
        "begin_deciding": bits_word(draft.begin_deciding),
        "judged": bits_word(
            {pair[records.AbsentPair.offset("symbol")] for pair in draft.absent_pairs}
            | draft.absent
        ),
    }


def _n_lists(draft: ProgramDraft) -> int:
    """How many lists a match may be in that is awaited (`awaited.AwaitedStore`)."""
    return len(draft.symbols) * (2 if draft.begin_deciding else 1)
