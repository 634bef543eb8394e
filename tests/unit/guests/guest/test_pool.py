"""The pool of guests: what is kept, what is stopped."""

import pytest

from emu.guests.guest import pool as module
from emu.guests.guest.pool import GuestPool
from emu.guests.options import GuestOptions

ONE, OTHER = GuestOptions(suite="trixie"), GuestOptions(suite="sid")


class Guest:
    """A guest that only counts."""

    def __init__(self, options, **_shown):
        self.options = options
        self.is_running = False
        self.stops = 0

    def start(self):
        self.is_running = True

    def stop(self):
        self.is_running = False
        self.stops += 1


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(module, "Guest", Guest)
    return GuestPool()


def test_a_guest_is_shared_until_it_runs_no_longer(pool):
    guest = pool.get(ONE)
    assert pool.get(ONE) is guest
    assert pool.get(OTHER) is not guest
    guest.is_running = False
    assert pool.get(ONE) is not guest
    assert guest.stops == 1


def test_a_guest_that_nobody_asks_for_is_stopped(pool):
    one, other = pool.get(ONE), pool.get(OTHER)
    pool.stop_unwanted()
    assert one.is_running
    assert other.is_running
    pool.get(ONE)
    pool.stop_unwanted()
    assert one.is_running
    assert (other.is_running, other.stops) == (False, 1)
    pool.stop_unwanted()
    assert not one.is_running
    assert pool.get(ONE) is not one


def test_closing_stops_each_even_when_one_cannot_be_stopped(pool):
    one, other = pool.get(ONE), pool.get(OTHER)

    def cannot():
        raise RuntimeError("no")

    other.stop = cannot
    with pytest.raises(RuntimeError, match="no"):
        pool.close()
    assert not one.is_running
