"""How loops are compiled: records, their layout, and the interpreted mode."""
