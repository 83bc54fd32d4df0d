"""Row patterns: a regular expression over the rows of a partition becomes one automaton, and loops
that find its matches in linear time."""
