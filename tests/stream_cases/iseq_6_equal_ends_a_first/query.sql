-- Two intervals that end together: one result, whichever row comes first.
FROM ev FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B'
PATTERN a.te = b.te
WITHIN 29
RETURN a.ts, a.te, b.ts, b.te
