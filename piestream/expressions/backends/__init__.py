"""One typed tree as Polars expressions, as Python and as Spark SQL."""
