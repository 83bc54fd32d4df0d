"""Predicates: SQL in, one typed tree, three back ends out."""
