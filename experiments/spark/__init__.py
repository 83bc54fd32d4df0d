"""On Spark: cores and slices, and what Spark itself costs."""
