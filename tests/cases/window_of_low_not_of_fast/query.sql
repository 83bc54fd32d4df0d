FROM events ORDER BY ts
DEFINE fast AS v > 8,
       low AS h < 2
PATTERN fast overlaps low
WITHIN 30 OF low, 720 OF fast
