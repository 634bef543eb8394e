"""How many examples of random input a test tries."""

from __future__ import annotations

import os

PERCENT = int(os.environ.get("MLX5EMU_EXAMPLES", "100"))
"""Of what a test asks for; scripts/check has fewer tried, so that it takes two minutes."""


def examples(count):
    """So many by default; at least five."""
    return max(5, count * PERCENT // 100)
