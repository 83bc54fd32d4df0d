"""The loops of row patterns, which are compiled."""
