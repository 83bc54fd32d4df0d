-- How long a row lasts is known when it begins, so the window may be shorter than it lasts.
FROM m FROM began TO ended KNOWN AT START PARTITION BY k
DEFINE a AS x > 0 AT LEAST 6, b AS x > 1 AT MOST 20
PATTERN a overlaps b
WITHIN 4
