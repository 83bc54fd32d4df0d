FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(LOW.ts) AS since, LAST(UP.ts) AS until, LAST(UP.price) AS top, START.price AS base
  AFTER MATCH SKIP TO LAST UP
  PATTERN (START LOW+ UP+)
  DEFINE LOW AS LOW.price < START.price, UP AS UP.price >= START.price
)
