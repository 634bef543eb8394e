"""What several guests try again meanwhile: one at a time, and not for too long."""

from __future__ import annotations

import time

import pytest

from emu.device.faults.plan import Plan
from emu.instruments.fuzz.later import Later
from emu.instruments.fuzz.mutate import Input

ONE, TWO = Input(Plan(seed=1), "bind"), Input(Plan(seed=2), "bind")


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_oldest_first_and_one_at_a_time(clock):
    waiting = Later(2)
    assert waiting.next_title() is None
    waiting.add(ONE, "one")
    waiting.add(TWO, "two")
    assert len(waiting) == 2
    assert waiting.next_title() == (ONE, "one")
    assert waiting.next_title() is None
    waiting.done()
    assert waiting.next_title() == (TWO, "two")
    assert len(waiting) == 0


def test_a_fifth_of_the_guests_time(clock):
    waiting = Later(4)
    for _ in range(3):
        waiting.add(ONE, "one")
    clock[0] += 10
    waiting.next_title()
    clock[0] += 50  # of 60 s of four guests, 48 are its share
    waiting.done()
    assert waiting.next_title() is None
    clock[0] += 3
    assert waiting.next_title() is not None
