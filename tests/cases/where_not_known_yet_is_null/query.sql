FROM cars ORDER BY ts
DEFINE a AS x > 1, b AS y > 1
PATTERN a overlaps; finished-by; contains b
WITHIN 100
WHERE b.te IS NULL AND NOT DURATION(a) < 3
EMIT ON BOTH
RETURN a.ts, a.te, b.ts, b.te
