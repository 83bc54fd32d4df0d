"""Numbers that the loops, the plan and the engine agree on. (Importing this loads no compiler.)"""

from __future__ import annotations

INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)

#: No such slot, word, entry or length.
NONE = -1
#: The end of an interval that has not ended. No event can have this time.
OPEN = INT64_MAX
