"""The demonstration: a generated fleet and its aggressive drivers."""
