"""The experiments: generators' streams through the engine and its peers, with their results.

The package imports piestream; nothing imports it.
"""
