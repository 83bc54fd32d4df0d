-- a is an interval whose end no row has told, so that the end of the input ends it. In two c begins with the second event of
-- the time up to which it may. In three it still may.
FROM m FROM began TO ended ID id WITH s ORDER BY ts, q PARTITION BY k
DEFINE a AS m, c AS s.c > 0 BRIDGING 2
PATTERN a AND NOT (c overlapped-by; during; after a AND c.ts - a.ts <= 5)
WITHIN 100
EMIT ON COMPLETION
RETURN a.ts, a.te
