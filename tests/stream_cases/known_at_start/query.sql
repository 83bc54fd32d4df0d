-- Intervals that are known when they begin decide a pair before they end.
FROM shifts FROM began TO ended KNOWN AT START
WITH alarms ORDER BY t
DEFINE shift AS shifts, alarm AS alarms.level > 2
PATTERN alarm during shift
WITHIN 50
RETURN shift.name, shift.te, alarm.ts, alarm.te
