"""From predicate bits to runs, and from runs to intervals with their running aggregates."""
