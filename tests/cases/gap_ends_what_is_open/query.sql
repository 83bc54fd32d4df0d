FROM events PARTITION BY k ORDER BY ts MAX GAP 3
DEFINE a AS n > 0 AT LEAST 4,
       b AS n > 5
PATTERN a started-by; equals; contains; finished-by b
WITHIN 100
EMIT ON BOTH
