-- ISEQ's Example 2, with the ends that its results need: a.ts < b.te < c.te < d.te.
FROM ev FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C', d AS type = 'D'
PATTERN a.ts < b.te AND b.te < c.te AND c.te < d.te
WITHIN 29
EMIT ON COMPLETION
RETURN a.ts, a.te, b.ts, b.te, c.ts, c.te, d.ts, d.te
