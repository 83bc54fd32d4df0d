FROM events ORDER BY ts
DEFINE m AS f0 <= 0.5,
       b AS f0 < 0.25
PATTERN b starts; followed-by; started-by; equals m
WITHIN 10000
NO OVERLAP
