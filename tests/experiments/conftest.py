"""The rollover generator is tested with the same brute force as the fleet."""

from tests.generators.conftest import relation, runs

__all__ = ["relation", "runs"]
