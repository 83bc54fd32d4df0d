-- That a is short enough is known by the end of the input only. By then it has been decided that no c has come in time.
FROM s ORDER BY ts WITH u ORDER BY ts PARTITION BY k
DEFINE a AS s.a > 0 AT MOST 10, c AS u.c > 0
PATTERN a AND NOT (c after; met-by a AND c.ts - a.ts <= 5)
WITHIN 4
RETURN a.ts, a.te
