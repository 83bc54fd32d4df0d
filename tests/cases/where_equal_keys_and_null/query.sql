FROM gates ORDER BY ts
DEFINE leaves AS kind = 'out', comes AS kind = 'in'
PATTERN leaves before comes
WITHIN 100
WHERE FIRST(leaves.badge) = FIRST(comes.badge)
RETURN leaves.ts, comes.ts, FIRST(comes.badge) AS badge
