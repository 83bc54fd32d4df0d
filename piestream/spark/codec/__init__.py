"""Rows and types as they cross between the JVM and Python."""
