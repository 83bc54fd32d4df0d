FROM events PARTITION BY sym ORDER BY ts, seq
DEFINE big AS size > 50,
       drop AS price < 10 AT MOST 1
PATTERN drop.ts - big.te BETWEEN 0 AND 2
    AND big before; meets drop
WITHIN 9
RETURN big.ts, big.te, drop.ts, drop.te, FIRST(drop.price) AS price
