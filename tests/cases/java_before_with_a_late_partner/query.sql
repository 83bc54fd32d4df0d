FROM events ORDER BY ts
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1,
       A3 AS a3 = 1,
       A4 AS a4 = 1
PATTERN A1 meets A2 AND A2 equals A3 AND A1 before A4
WITHIN 100
