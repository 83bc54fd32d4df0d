-- Time goes as far as the ends that are known before they come: by then a silence has ended what it ends.
FROM levels ORDER BY t MAX GAP 2
WITH shifts FROM began TO ended KNOWN AT START
DEFINE high AS levels.level > 0, shift AS shifts
PATTERN high during; overlapped_by shift
WITHIN 40
EMIT ON BOTH
RETURN high.ts, high.te, shift.te, RELATION(high, shift) AS how
