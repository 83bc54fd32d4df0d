"""The engine by itself: sources, shapes of patterns, partitions, sessions, memory, start-up."""
