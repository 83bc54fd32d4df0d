"""Programs that attack piestream: hostile texts, states, signals and threads.

Each runs by itself (``python -m tests.attacks.texts --tries 100000 --seed 1``) and as a short test.
A try that ends the process, hangs or takes too much memory is a failure, and its seed is named.
"""
