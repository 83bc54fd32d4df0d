"""Compile the kernels once: ``python -m tests.warm``.

Workers of pytest-xdist that find no compiled kernels would all compile them at the same time.
"""

from __future__ import annotations

import piestream as ps

if __name__ == "__main__":
    print(ps.warm())
