FROM s0 ORDER BY ts
WITH s1 FROM began TO ended
DEFINE a AS s0.b0,
       c AS s1.b1
PATTERN a
    AND NOT (a overlaps c AND c.te - a.te <= 1)
WITHIN 1000
