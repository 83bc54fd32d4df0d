-- The window is inclusive: a span of 30 is inside 30; ISEQ's strict window of 30 is 29 of whole ticks.
FROM ev FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B'
PATTERN a contains b
WITHIN 30
RETURN a.ts, a.te, b.ts, b.te
