FROM events ORDER BY ts
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1
PATTERN A1 followed-by A2
WITHIN 100
