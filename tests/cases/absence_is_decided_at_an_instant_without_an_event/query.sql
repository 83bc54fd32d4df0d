FROM events PARTITION BY k ORDER BY ts
DEFINE a AS a,
       c AS c
PATTERN a AND NOT (c after; met_by a AND c.ts - a.te <= 4)
WITHIN 99
RETURN a.ts, a.te
