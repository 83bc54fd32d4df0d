-- Ends that are waited for get new ids as often as the ring is full: none of these is taken for a new interval.
FROM s0 FROM began TO ended KNOWN AT START
DEFINE a AS s0.p,
       d AS s0.q AT LEAST 1 AT MOST 1,
       b AS s0.r
PATTERN d followed-by; meets b AND a before; meets; overlaps b
WITHIN 4
RETURN a.ts, d.ts, b.ts
