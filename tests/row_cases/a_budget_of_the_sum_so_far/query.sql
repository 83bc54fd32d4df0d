FROM orders MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES FIRST(A.ts) AS since, LAST(A.ts) AS until, SUM(A.price) AS total
  PATTERN (A+)
  DEFINE A AS SUM(A.price) <= 60
)
