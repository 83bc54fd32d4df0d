"""What a query finds in rows, and why: the funnel, single matches, near misses, sweeps.

Everything here asks the engine: a query's parts are queries, and what a change would do is what the
changed query finds.
"""
