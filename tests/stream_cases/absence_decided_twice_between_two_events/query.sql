FROM s0 ORDER BY ts
WITH s1 FROM began TO ended KNOWN AT START
DEFINE a AS s0.b0,
       c AS s1.b1
PATTERN a
    AND NOT (a overlaps; equals c AND c.ts - a.ts <= 3)
WITHIN 1000
