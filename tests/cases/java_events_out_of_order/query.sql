FROM events ORDER BY ts
DEFINE a AS p = 1,
       b AS q = 1
PATTERN a meets b
WITHIN 100
