-- The end of the input ends c at 6, too short to be one. Another partition's time, and rows of another stream, have
-- gone beyond the window by then.
FROM s ORDER BY ts WITH m FROM began TO ended KNOWN AT START PARTITION BY k
DEFINE a AS s.a > 0, c AS s.c > 0 AT LEAST 5, x AS m
PATTERN a during x AND NOT (c overlapped-by a)
WITHIN 10 OF a
RETURN a.ts, a.te
