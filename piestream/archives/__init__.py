"""Rows on disk that queries read only where a match can be, and how they get there.

An archive is a directory of plain Parquet files with statistics of every page beside them, and a
manifest that says what is in it. `archive` opens one; `store` writes it; `pages` knows what can be
read apart; `cores` finds where a match can be; `selection` reads that; `run` has the queries,
`aggregation` the aggregates.
"""
