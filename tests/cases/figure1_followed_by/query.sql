FROM CarSensors PARTITION BY car_id ORDER BY ts
DEFINE c AS (lateral > 0.5) OR (lateral < -0.5),
       d AS accel < -9
PATTERN c before; followed-by d
WITHIN 300
RETURN c.ts, d.ts, RELATION(c, d) AS how, RELATION(d, c) AS back
