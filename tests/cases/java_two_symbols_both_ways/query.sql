FROM events ORDER BY ts
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1
PATTERN A1 before; after A2 AND A2 before; after A1
WITHIN 100
