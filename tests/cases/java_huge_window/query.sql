FROM events ORDER BY ts
DEFINE a AS p = 1,
       b AS q = 1
PATTERN a before b
WITHIN 9000000000 s
RETURN a.ts, b.ts
