FROM events ORDER BY ts MAX GAP 9
DEFINE a AS a,
       c AS c BETWEEN 2 AND 3 EVENTS
PATTERN a AND NOT (c after a AND c.ts - a.te <= 4)
WITHIN 99
