-- Instants as intervals of one tick: a.te <= b.ts is a sequence.
FROM points FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C'
PATTERN a.te <= b.ts AND b.te <= c.ts
WITHIN 100
RETURN a.ts, b.ts, c.ts
