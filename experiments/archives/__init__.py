"""What is read of archives, and how long that takes: programs that print tables, from fixed seeds.

``python -m experiments.archives.minimum`` and the others; each says with ``--help`` what sizes it takes.
"""
