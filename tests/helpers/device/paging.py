"""Both schemes of on-demand paging, for tests that run in either."""

from __future__ import annotations

import pytest

from emu.device.models.capabilities import ALL_MEMORY_ODP, ALL_TRANSPORT_ODP

IN_BOTH_SCHEMES = pytest.mark.parametrize(
    "scheme", [ALL_TRANSPORT_ODP, ALL_MEMORY_ODP], ids=["transport", "memory"]
)
"""For classes and modules that run in either scheme; they use the fixture ``scheme`` as well.

All operations may wait for pages, which is more than a model offers by default.
"""
