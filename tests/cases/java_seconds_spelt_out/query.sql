FROM events ORDER BY ts
DEFINE a AS p = 1,
       b AS q = 1
PATTERN a before b
WITHIN 5 seconds
RETURN a.ts, b.ts
