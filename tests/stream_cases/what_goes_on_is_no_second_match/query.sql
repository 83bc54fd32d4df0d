FROM s0 ORDER BY ts
WITH s1 ORDER BY ts
DEFINE a AS s0.b0 BRIDGING 3,
       b AS s1.b1
PATTERN a followed-by; finished-by; overlaps; contains b
WITHIN 1000
