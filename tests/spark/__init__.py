"""Spark: the same rows as the embedded engine."""
