-- With rows of beginnings both results of Example 2 are decided at 12, where ISEQ gives them at 15 and 16.
FROM ev FROM ts TO te ID id
DEFINE a AS type = 'A', b AS type = 'B', c AS type = 'C', d AS type = 'D'
PATTERN a.ts < b.te AND b.te < c.te AND c.te < d.te
WITHIN 29
RETURN a.ts, a.te, b.ts, c.ts, d.ts, d.te
