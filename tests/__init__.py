"""The tests: the oracle, the laws, the cases."""
