"""Virtual functions behind a switch that a cable connects with another function of the guest."""

from __future__ import annotations

import pytest
from helpers.guest.guests import no_complaints
from helpers.guest.managed_vfs import SAYS, with_peer


@pytest.fixture(scope="module")
def guest(lab, suite):
    """Its first function has two virtual ones; the second one is behind the cable."""
    with with_peer(lab, suite) as guest:
        yield guest


@pytest.fixture
def quiet(guest):
    """The driver has nothing to complain about during the test."""
    with no_complaints(guest, known=SAYS):
        yield
