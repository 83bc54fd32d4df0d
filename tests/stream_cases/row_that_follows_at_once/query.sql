-- The first row behind an alarm follows it; one that begins while that goes on does not.
FROM s ORDER BY t
WITH p FROM began TO ended KNOWN AT START
DEFINE a AS s.x > 1, c AS p
PATTERN a AND NOT (c follows a AND c.te - a.te <= 20)
WITHIN 99
RETURN a.ts, a.te
