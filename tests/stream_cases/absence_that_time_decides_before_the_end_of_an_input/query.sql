-- The time of another partition has decided that no c follows a. Then the input ends, and a with it, at the last event
-- of its partition: of one at 4. In two c has come. In three it may still come, and in four it is too late.
FROM s ORDER BY ts WITH u ORDER BY ts PARTITION BY k
DEFINE a AS s.a > 0, c AS u.c > 0
PATTERN a AND NOT (c after; met-by; during a AND c.ts - a.ts <= 5)
WITHIN 100
EMIT ON COMPLETION
RETURN a.ts, a.te
