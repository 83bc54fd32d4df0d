-- ISEQ's R1: starts in order, whatever the ends.
FROM ev FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C'
PATTERN a.ts < b.ts < c.ts
WITHIN 29
RETURN a.ts, a.te, b.ts, b.te, c.ts, c.te
