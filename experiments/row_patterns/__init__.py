"""Row patterns: beside other engines that have MATCH_RECOGNIZE, and how fast they are."""
