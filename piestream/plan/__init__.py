"""A query and a schema become a physical program."""
