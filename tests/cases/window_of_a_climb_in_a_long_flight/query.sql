FROM events PARTITION BY k ORDER BY ts
DEFINE airborne AS h > 0,
       final AS g = 1,
       climb AS r > 5
PATTERN final during airborne
    AND airborne overlaps; finished-by; contains climb
    AND final before climb
    AND climb.ts - final.te <= 2
WITHIN 1 OF climb
ONCE PER airborne, climb
