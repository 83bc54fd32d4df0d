"""What a method has to offer so that it can be measured beside the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any

from experiments.peers.forms import EVENTS, Form
from experiments.peers.pattern import Ints, Pattern, Result

if TYPE_CHECKING:
    from experiments.streams.cases import Case

__all__ = ["BITS", "FRAME", "INPUTS", "Matcher", "Peer", "Reports"]

#: The forms in which every method is given the same stream.
BITS, FRAME = "packed bits", "raw frame"
INPUTS = (BITS, FRAME)


class Reports(Enum):
    """When a method reports a match."""

    #: Each pair when its relation is sure to be an allowed one.
    EARLIEST = "at the earliest instant"
    #: Each pair when it is one certain relation.
    RELATION = "when each relation is certain"
    #: When all intervals have ended.
    COMPLETION = "at completion"
    UNKNOWN = "only a number at the end"


@dataclass(frozen=True)
class Matcher:
    """A method that has been given its pattern: all that is not to be measured is done.

    ``match`` takes a stream in the method's own form, which ``form`` derives inside the clock.
    """

    match: Callable[[Any], Result]
    form: Form = EVENTS
    #: Whether a program with a clock of its own derives by itself, inside that clock.
    derives: bool = False

    def over(self, times: Ints, masks: Ints, apart: int = 0) -> Callable[[], Result]:
        """A run over one stream, whose bits are packed now; bit i of a mask: symbol i holds.

        ``apart``: how far the partitions are moved apart that were put into it, 0 for one.
        """
        return partial(self._run, self.form.of_bits, self.form.load(times, masks, apart))

    def on_frame(self, case: Case) -> Callable[[], Result]:
        """A run over a raw frame."""
        return partial(self._run, self.form.of_case, case)

    def _run(self, derive: Callable[[Any], Any], given: Any) -> Result:
        before = process_time()
        derived = derive(given)
        took = 0.0 if self.derives else process_time() - before
        return replace(self.match(derived), deriving_seconds=took)


@dataclass(frozen=True)
class Peer:
    """One method: what it is, when it reports a match, and how to run it."""

    title: str
    description: str
    #: Gives the `Matcher` of a pattern; takes ``keep`` (False: matches are only counted).
    matcher: Callable[..., Matcher]
    reports: Reports
    #: Colour and mark in all figures.
    style: tuple[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Runs on a raw frame by itself; otherwise the frame is derived as the matcher's form says.
    on_frame: Callable[[Case], Callable[[], Result]] | None = None
    #: False where matches are known to be missing, false or repeated.
    exact: bool = True
    #: Compiled loops over one event after another; the others take the whole stream at once, or
    #: are programs of their own.
    streaming: bool = True
    #: The ways to run a pattern of which the quickest is found by trials (see `peers.trials`): options
    #: of the matcher by name. It takes the pattern, and whether there are partitions.
    plans: Callable[[Pattern, bool], Mapping[str, Mapping[str, Any]]] | None = None
    #: Says why the method cannot be run here, of one that others wrote and that need not be installed.
    missing: Callable[[], str] | None = None

    @property
    def is_optional(self) -> bool:
        """True of a method that need not be installed."""
        return self.missing is not None

    def missing_here(self) -> str:
        """Why it cannot be run here; empty if it can."""
        return self.missing() if self.missing is not None else ""

    def prepare(self, pattern: Pattern, **options: Any) -> Matcher:
        """The method with its own options and these."""
        return self.matcher(pattern, **{**self.options, **options})

    def run(self, pattern: Pattern, times: Ints, masks: Ints, **options: Any) -> Result:
        """Run it over one partition, sorted by time; bit i of a mask: symbol i holds."""
        return self.prepare(pattern, **options).over(times, masks)()
