"""The windows of a query: of symbols that it has, and long enough to say when every interval is forgotten."""

from __future__ import annotations

from piestream.language.parts import Constraint
from piestream.language.validation import Validation
from piestream.language.windows import NO_WINDOW, Window

__all__ = ["report_unbounded", "validate_windows"]


def validate_windows(validation: Validation) -> None:
    """Windows are of defined symbols; those of all symbols that are equal are one window of all."""
    draft = validation.draft
    is_defined = [
        validation.is_in_match(window.symbol, draft.spans.get(("within", window.symbol)))
        for window in draft.windows
    ]
    if not all(is_defined):
        return
    position = validation.position
    draft.windows = tuple(sorted(draft.windows, key=lambda window: position[window.symbol]))
    lengths = {window.length for window in draft.windows}
    if draft.within is None and len(lengths) == 1 and len(draft.windows) == len(validation.present):
        draft.within, draft.windows = lengths.pop(), ()


def report_unbounded(validation: Validation, constraints: tuple[Constraint, ...]) -> None:
    """Report symbols whose intervals could be in a match however long ago they ended."""
    from piestream.language.difference_bounds import kept_after_end, too_long

    draft = validation.draft
    if draft.within is not None:
        return
    unit = next((stream.time_unit for stream in draft.streams if stream.time_unit), None)
    kept = kept_after_end(
        validation.present,
        constraints,
        NO_WINDOW,
        draft.windows,
        draft.emit,
        unit,
        draft.is_sequenced,
    )
    for name, length in kept.items():
        if length is None:
            window = draft.windows[0]
            validation.report_at(
                ("within",),
                f"nothing bounds how long {name} must be kept after its end",
                too_long(constraints, draft.windows, unit)
                or f"write {_with(draft.windows, name)}, or bound how far its end lies before an "
                f"interval with a window, as in {window.symbol}.ts - {name}.te <= {window.length}",
            )


def _with(windows: tuple[Window, ...], name: str) -> str:
    """The clause with a window of one symbol more."""
    from piestream.language.windows import windows_text

    return f"WITHIN {windows_text(NO_WINDOW, (*windows, Window(name, windows[-1].length)))}"
