-- c begins 2 before the last time, and so does it before the end of a if that comes with another event of this time. The
-- input ends there, so it does. What has not been decided before is decided by that.
FROM s ORDER BY ts, q WITH u ORDER BY ts, q PARTITION BY k
DEFINE a AS s.a > 0, c AS u.c > 0
PATTERN a AND NOT (c during a AND a.te - c.ts <= 2 AND c.ts - a.ts <= 1)
WITHIN 99
EMIT ON COMPLETION
RETURN a.ts, a.te
