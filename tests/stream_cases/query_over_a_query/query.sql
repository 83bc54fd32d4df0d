-- A burst is two peaks in a row; an alarm during a pump's work that holds a burst.
FROM work FROM began TO ended ID id
WITH (FROM sensor ORDER BY t DEFINE peak AS v > 5, again AS v > 7 PATTERN peak before again WITHIN 6 RETURN MAX(peak.v) AS top) AS bursts
DEFINE run AS work.state = 'on', burst AS bursts
PATTERN run contains burst
WITHIN 60
EMIT ON COMPLETION
RETURN run.ts, run.te, burst.ts, burst.te, burst.top
