FROM events ORDER BY ts UNIT s
DEFINE A1 AS a1 = 1,
       A2 AS a2 = 1
PATTERN A1 equals A2
WITHIN 1 s
