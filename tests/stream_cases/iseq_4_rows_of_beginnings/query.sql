-- The same trace with a row for each beginning: the same results.
FROM ev FROM ts TO te ID id
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C', d AS type = 'D'
PATTERN a.ts < b.te AND b.te < c.te AND c.te < d.te
WITHIN 29
EMIT ON COMPLETION
RETURN a.ts, a.te, b.ts, b.te, c.ts, c.te, d.ts, d.te
