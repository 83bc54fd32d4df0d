"""Rows as they travel between the JVM and Python: encoded on one side, decoded on the other."""
