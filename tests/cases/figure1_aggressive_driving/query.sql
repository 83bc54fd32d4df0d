FROM CarSensors PARTITION BY car_id ORDER BY ts
DEFINE a AS accel > 8,                                  -- acceleration (m/s^2)
       s AS speed > 70,                                 -- speeding (mph)
       c AS (lateral > 0.5) OR (lateral < -0.5),        -- lane change (m/s)
       d AS accel < -9                                  -- hard braking (m/s^2)
PATTERN a meets; overlaps; starts; during s
    AND s contains; overlaps; finished_by c
    AND c overlaps; meets; before d
    AND a before d
WITHIN 300
RETURN FIRST(s.car_id) AS id, AVG(s.speed) AS avg_speed, s.ts, s.te, d.ts
