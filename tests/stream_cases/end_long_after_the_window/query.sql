-- A match that was reported waits for an end that comes when its interval has long left the window.
FROM s0 FROM began TO ended ID id
DEFINE c AS s0.b
PATTERN c
WITHIN 4
EMIT ON BOTH
