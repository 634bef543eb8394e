"""When a wait looks again before it sleeps, on a clock that goes on with each look."""

import os
import select
import socket

import pytest

from emu.server.vfio.waits.spinning import (
    ASK_AGAIN_NS,
    MAX_MISSES,
    SOON_NS,
    SPIN_NS,
    Spin,
    processor_is_free,
)
from emu.server.vfio.waits.waiting import Waiter

READY = [(3, select.POLLIN)]


class World:
    """A clock, what poll() finds, and whether a processor is free."""

    def __init__(self):
        self.now = 0
        self.comes_at = None
        self.is_free = True
        self.looks = self.questions = 0
        self.spin = Spin(self.ask, lambda: self.now)

    def ask(self):
        self.questions += 1
        return self.is_free

    def poll(self, timeout):
        assert timeout == 0
        self.looks += 1
        self.now += 1000
        return READY if self.comes_at is not None and self.now >= self.comes_at else []

    def wait(self, comes_in=None, timeout_ns=None):
        """A wait for a message that comes so much later; how often it has looked, what it found."""
        self.looks, self.comes_at = 0, None if comes_in is None else self.now + comes_in
        found = self.spin.spin(self, timeout_ns)
        return self.looks, found


@pytest.fixture
def world():
    made = World()
    made.wait()
    return made


def test_messages_that_come_soon_are_looked_for(world):
    for _ in range(5):
        assert world.wait(20_000) == (20, READY)


def test_the_first_wait_sleeps():
    assert World().wait(20_000) == (0, [])


def test_an_idle_server_sleeps_at_once(world):
    world.now += SOON_NS
    assert world.wait(1000) == (0, [])


def test_it_looks_for_a_moment_only(world):
    assert world.wait() == (SPIN_NS // 1000, [])


def test_no_longer_than_it_may_wait(world):
    assert world.wait(timeout_ns=5000) == (5, [])
    assert World().wait(timeout_ns=0) == (0, [])


def test_a_look_takes_no_time_when_nothing_is_to_be_waited_for(world):
    assert world.wait(0, timeout_ns=0) == (0, [])


def test_waits_that_have_missed_sleep_more_and_more(world):
    for misses in (1, 2, 3, MAX_MISSES, MAX_MISSES):
        assert world.wait()[0]
        for _ in range(1 << misses):
            assert world.wait() == (0, [])
    assert world.wait(1000) == (1, READY)
    assert world.wait()[0]
    for _ in range(2):
        assert world.wait() == (0, [])
    assert world.wait(1000) == (1, READY)


def test_others_who_want_the_processor_get_it(world):
    world.is_free = False
    assert world.wait(1000) == (0, [])
    world.is_free = True
    while world.now < ASK_AGAIN_NS:
        world.now += SOON_NS // 2
        looks, _ = world.wait(1000)
    assert looks
    assert world.questions == 2


@pytest.mark.parametrize(
    ("text", "is_free"),
    [
        ("0.1 0.2 0.3 1/200 4711\n", True),
        ("0.1 0.2 0.3 2/200 4711\n", True),
        ("0.1 0.2 0.3 3/200 4711\n", False),
        ("0.1 0.2 0.3 100000/200000 4711\n", False),
        ("0.1 0.2\n", False),
        ("0.1 0.2 0.3 many/200 4711\n", False),
        ("", False),
    ],
)
def test_free_is_what_the_system_says(tmp_path, monkeypatch, text, is_free):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    path = tmp_path / "loadavg"
    path.write_text(text)
    assert processor_is_free(str(path)) is is_free


def test_a_system_that_does_not_say():
    before = os.listdir("/proc/self/fd")
    assert not processor_is_free("/nonexistent/loadavg")
    assert isinstance(processor_is_free(), bool)
    assert os.listdir("/proc/self/fd") == before


def test_a_receive_call_takes_what_was_found():
    near, far = socket.socketpair()
    with near, far:
        waiter = Waiter(near, Spin(lambda: True))
        far.send(b"one")
        assert waiter.prepare(None)
        assert near.recv(100) == b"one"
        far.send(b"two")
        assert not waiter.prepare(None)
        assert near.recv(100, socket.MSG_DONTWAIT) == b"two"
