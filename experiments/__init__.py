"""Experiments: streams through the engine and through its peers, and what was measured.

The package imports piestream; nothing imports it. README.md says how it is laid out.
"""
