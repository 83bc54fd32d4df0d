"""Tables of ready-made intervals: join, relate, coverage, depth and merge."""
