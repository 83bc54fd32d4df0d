-- Time has decided the first NOT by 8, and the end of the input decides the second at 6: d is too short. Then the match is
-- reported with the last event of its partition. In two the first is not decided.
FROM s ORDER BY ts WITH u ORDER BY ts PARTITION BY k
DEFINE a AS s.a > 0, c AS u.c > 0, d AS u.d > 0 AT LEAST 5
PATTERN a AND NOT (c after; met-by a AND c.ts - a.ts <= 7) AND NOT (d overlapped-by a)
WITHIN 100
RETURN a.ts, a.te
