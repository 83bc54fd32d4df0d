-- What has not ended with a row that is known at its start touches the gap behind that: nothing follows.
FROM s ORDER BY t
WITH p FROM began TO ended KNOWN AT START
DEFINE c AS s.x > 1, a AS p
PATTERN a AND NOT (c follows a AND c.ts - a.te <= 9)
WITHIN 99
RETURN a.ts, a.te
