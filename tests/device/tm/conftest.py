"""Two ends, of which the right one has a queue that matches tags."""

import pytest
from helpers.device.tags import TaggedEnds


@pytest.fixture
def tagged(ends):
    return TaggedEnds(*ends)
