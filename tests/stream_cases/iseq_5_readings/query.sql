-- Readings of a warehouse every two seconds: an interval ends at the first reading outside it.
FROM readings ORDER BY ts
WITH shifts FROM began TO ended
DEFINE high AS temp > 100, medium AS temp > 50 AND temp <= 100, shift AS shifts
PATTERN medium meets high AND shift contains high
WITHIN 60
EMIT ON COMPLETION
RETURN medium.ts, medium.te, high.ts, high.te, shift.name
