FROM s0 ORDER BY ts
WITH s1 ORDER BY ts
DEFINE a AS s0.b0,
       c AS s1.b1 AT MOST 2 EVENTS BRIDGING 9
PATTERN a
    AND NOT (c finished-by a AND a.te - c.ts < 40)
WITHIN 1000
