"""How rows get in and out on one machine."""
