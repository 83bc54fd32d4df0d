FROM s0 ORDER BY ts
WITH s1 FROM began TO ended ID id
DEFINE a AS s0.b0 AT MOST 3,
       c AS s1.b1
PATTERN a
    AND NOT (a finishes c AND c.te - a.ts >= 2)
WITHIN 1000
