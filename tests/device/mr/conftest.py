"""What tests of memory keys with signatures and with encryption have in common."""

import pytest

from emu.driver.verbs.connect import connect


@pytest.fixture
def sides(ends):
    """Two connected queue pairs with small packets."""
    left, right = (end.queue_pair() for end in ends)
    connect(left, right, mtu=1)
    return left, right
