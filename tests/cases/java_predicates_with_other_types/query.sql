FROM events ORDER BY ts
DEFINE a AS n > 0.5 AND m = 1,
       b AS n >= m,
       c AS flag AND x = 1
PATTERN a starts; equals; started-by b AND b meets c
WITHIN 100
