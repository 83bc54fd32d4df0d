"""How fast piestream is, and what that takes: ``python -m benchmarks NAME [--quick|--full]``.

A program is a module with a function ``rows(scale)``, which yields one mapping a measurement; the
measurements of all programs are made by `benchmarks.measure`, and kept in ``results/`` as JSON.
"""

from __future__ import annotations

#: The programs, in the order in which ``all`` runs them.
PROGRAMS = (
    "fig4",
    "before",
    "mixed",
    "dead_end",
    "rollover",
    "partitions",
    "push",
    "snapshots",
    "memory",
    "cold",
    "adapt",
    "threads",
)
