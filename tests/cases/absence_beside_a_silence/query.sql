FROM events ORDER BY ts MAX GAP 3
DEFINE a AS a,
       again AS a
PATTERN a AND NOT (again after a AND again.ts - a.te < 5)
WITHIN 99
