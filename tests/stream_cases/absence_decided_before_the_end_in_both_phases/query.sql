-- As in the case of the completions. The input ends behind all that time brings, and ends what is open at the last event
-- of its partition: a completion has that time, though its trigger has a later one.
FROM s ORDER BY ts WITH u ORDER BY ts PARTITION BY k
DEFINE a AS s.a > 0, c AS u.c > 0
PATTERN a AND NOT (c after; met-by; during a AND c.ts - a.ts <= 5)
WITHIN 100
EMIT ON BOTH
RETURN a.ts, a.te
