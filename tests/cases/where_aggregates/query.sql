FROM cars PARTITION BY car ORDER BY ts
DEFINE fast AS speed > 70, brake AS accel < -5
PATTERN fast overlaps; contains brake
WITHIN 100
WHERE AVG(fast.speed) > 80 AND (COUNT(fast) >= 3 OR MIN(brake.accel) < -8)
EMIT ON COMPLETION
RETURN fast.ts, brake.ts, AVG(fast.speed) AS mean, COUNT(fast) AS events, MIN(brake.accel) AS hardest
