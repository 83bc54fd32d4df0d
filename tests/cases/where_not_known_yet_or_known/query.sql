FROM cars ORDER BY ts
DEFINE a AS x > 1, b AS y > 1
PATTERN a meets; overlaps; before b
WITHIN 100
WHERE b.te IS NULL AND (DURATION(a) > 1 OR RELATION(a, b) = 'meets')
EMIT ON BOTH
RETURN a.ts, a.te, b.ts, b.te, RELATION(a, b) AS how
