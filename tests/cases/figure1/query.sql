FROM CarSensors PARTITION BY car_id ORDER BY ts
DEFINE a AS accel > 8,
       s AS speed > 70
PATTERN a overlaps s
WITHIN 300
EMIT ON BOTH
RETURN a.ts, a.te, s.ts, s.te, AVG(s.speed) AS avg_speed, COUNT(s) AS events, RELATION(a, s) AS how
