-- The thirteen relations of ISEQ's Table 1, one a partition.
FROM ev FROM ts TO te PARTITION BY k
DEFINE a AS type = 'A', b AS type = 'B'
PATTERN a before; meets; overlaps; finished-by; contains; starts; equals; started-by; during; finishes; overlapped-by; met-by; after b
WITHIN 30
EMIT ON COMPLETION
RETURN RELATION(a, b) AS how
