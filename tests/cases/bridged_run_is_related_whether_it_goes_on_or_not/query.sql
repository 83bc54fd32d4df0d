FROM events ORDER BY ts
DEFINE c AS b1 BRIDGING 5,
       b AS b2
PATTERN c before; overlaps; finished-by; contains b
WITHIN 100
