FROM StockArchive MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.ts AS ts, LAST(D.ts) AS te, A.price AS initPriceA, LAST(D.price) AS maxPriceA
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE B AS B.price < PREV(B.price),
         C AS C.price >= PREV(C.price) AND C.price <= A.price,
         D AS D.price > PREV(D.price) AND D.price > A.price
)
