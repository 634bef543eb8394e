"""Blocking in the receive call with a limit, and being woken from it."""

import os
import signal
import socket
import threading
import time

import pytest

from emu.server.vfio.waits.waiting import Waiter

MS = 1_000_000


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def receive(near, waiter, timeout_ns):
    """One receive call as a transport makes it: the data, or None when none came."""
    flags = 0 if waiter.prepare(timeout_ns) else socket.MSG_DONTWAIT
    try:
        return near.recv(100, flags)
    except BlockingIOError:
        return None


def wait(near, waiter, timeout_ns):
    """Wait as the loop does, until time is up; returns the milliseconds it took."""
    start = time.monotonic_ns()
    deadline = start + timeout_ns
    while (left := deadline - time.monotonic_ns()) > 0:
        assert receive(near, waiter, left) is None
    return (time.monotonic_ns() - start) / MS


@pytest.mark.parametrize("timeout_ms", [0, 1, 5, 23, 24, 40, 130])
def test_a_wait_takes_its_time(pair, timeout_ms):
    near, _ = pair
    elapsed = wait(near, Waiter(near), timeout_ms * MS)
    assert timeout_ms <= elapsed < timeout_ms + 10_000


def test_short_waits_are_not_rounded_up(pair):
    """A moderated event is due in microseconds; one of many shows what the call can do."""
    near, _ = pair
    waiter = Waiter(near)
    assert any(wait(near, waiter, MS // 20) < 0.9 for _ in range(5000))


@pytest.mark.parametrize("timeout_ns", [0, MS // 2, 5 * MS, 10_000 * MS, None])
def test_data_end_the_wait(pair, timeout_ns):
    near, far = pair
    far.send(b"data")
    assert receive(near, Waiter(near), timeout_ns) == b"data"


@pytest.mark.parametrize("timeout_ns", [30_000 * MS, None])
def test_a_wake_up_before_the_wait(pair, timeout_ns):
    near, _ = pair
    waiter = Waiter(near)
    for _ in range(3):
        waiter.wake()
        assert receive(near, waiter, timeout_ns) is None


def test_a_wake_up_during_the_wait(pair):
    """From a signal handler, after which Python calls receive again."""
    near, _ = pair
    waiter = Waiter(near)
    woken = []

    def handler(_number, _frame):
        woken.append(True)
        waiter.wake()

    previous = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        assert receive(near, waiter, None) is None
        assert woken
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)


def test_waits_after_a_wake_up_are_long_again(pair):
    near, _ = pair
    waiter = Waiter(near)
    waiter.wake()
    assert receive(near, waiter, None) is None
    assert wait(near, waiter, 60 * MS) >= 60
