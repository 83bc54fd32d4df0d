FROM events ORDER BY ts
DEFINE c AS b1 BRIDGING 1,
       b AS b2
PATTERN b overlapped-by c
WITHIN 100
RETURN MIN(b.n1) AS m,
       COUNT(c) AS events,
       c.te
