FROM events ORDER BY ts
DEFINE c AS c AT LEAST 2,
       a AS a,
       b AS b
PATTERN a before b AND NOT (c after a AND c.te <= b.ts + 1)
WITHIN 99
EMIT ON BOTH
