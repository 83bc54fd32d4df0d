FROM events ORDER BY ts
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1,
       A3 AS a3 = 1
PATTERN A1 overlapped-by A2 AND A2 overlapped-by A3 AND A1 after A3
WITHIN 100
