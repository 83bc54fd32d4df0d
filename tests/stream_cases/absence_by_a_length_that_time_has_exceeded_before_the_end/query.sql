-- Time has gone on in another partition, so that a lasts longer than until the last event of its own, whatever the end
-- of the input shows it by: what that time has decided stays so.
FROM s ORDER BY ts, q WITH u ORDER BY ts, q PARTITION BY k
DEFINE a AS s.a > 0, c AS u.c > 0
PATTERN a AND NOT (c during a AND a.te - c.ts <= 2 AND c.ts - a.ts <= 1)
WITHIN 99
EMIT ON COMPLETION
RETURN a.ts, a.te
