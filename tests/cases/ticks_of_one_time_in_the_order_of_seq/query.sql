FROM events ORDER BY ts, seq
DEFINE low AS bid < 6,
       cheap AS ask < 6
PATTERN low meets; overlaps; finished-by cheap
WITHIN 5
EMIT ON BOTH
RETURN FIRST(low.seq) AS low_seq, FIRST(cheap.seq) AS cheap_seq, low.ts, low.te, RELATION(low, cheap) AS how
