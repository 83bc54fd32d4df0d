-- What leaves the window by its start does not take with it what ended later.
FROM ev FROM ts TO te
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C'
PATTERN a.te < b.te AND b.te < c.te
WITHIN 27
RETURN a.ts, b.ts, c.ts
