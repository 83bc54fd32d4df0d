FROM events ORDER BY ts MAX GAP 1
DEFINE c AS b,
       m AS a,
       z AS b
PATTERN m.te - z.te < 6 AND NOT (c equals m)
WITHIN 99
