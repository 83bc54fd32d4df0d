FROM events ORDER BY ts
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1,
       A3 AS a3 = 1
PATTERN A2 after A1 AND A3 after A1
WITHIN 100
