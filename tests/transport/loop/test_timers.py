"""Timers of the loop, on a clock that the test moves."""

import pytest

from emu.device.rounds.budget import TIMER_BUDGET
from emu.device.rounds.costs import STEPS_PER_TIMER
from emu.server.vfio.waits.timers import TimerQueue


class ManualQueue(TimerQueue):
    """Time stands still until the test says otherwise."""

    now = 0

    def now_ns(self):
        return self.now


@pytest.fixture
def queue():
    return ManualQueue()


def test_timers_run_in_the_order_of_their_time(queue):
    calls = []
    for delay in (30, 10, 20, 10):
        queue.call_later(delay, lambda delay=delay: calls.append(delay))
    assert queue.next_ns() == 10
    queue.run_due()
    assert calls == []
    queue.now = 20
    assert queue.next_ns() == 0
    queue.run_due()
    assert calls == [10, 10, 20]
    assert queue.next_ns() == 10


def test_no_timers(queue):
    assert queue.next_ns() is None
    queue.run_due()


def test_a_timer_runs_once(queue):
    calls = []
    timer = queue.call_later(0, lambda: calls.append(1))
    queue.run_due()
    queue.run_due()
    timer.cancel()
    assert calls == [1]


def test_cancelled_timers_do_not_run(queue):
    calls = []
    first = queue.call_later(1, lambda: calls.append(1))
    queue.call_later(1, lambda: calls.append(2))
    first.cancel()
    first.cancel()
    queue.now = 1
    queue.run_due()
    assert calls == [2]


def test_a_callback_can_cancel_another_that_is_due(queue):
    calls = []
    queue.call_later(1, lambda: second.cancel())
    second = queue.call_later(1, lambda: calls.append(2))
    queue.now = 1
    queue.run_due()
    assert calls == []


def test_what_a_callback_adds_waits_for_the_next_round(queue):
    calls = []

    def again():
        calls.append(len(calls))
        queue.call_later(0, again)

    queue.call_later(0, again)
    queue.run_due()
    assert calls == [0]
    queue.run_due()
    assert calls == [0, 1]


def test_a_delay_below_zero_is_none(queue):
    queue.now = 100
    queue.call_later(-50, lambda: None)
    assert queue.next_ns() == 0


def test_the_queue_does_not_grow_with_cancelled_timers(queue):
    """As a transport timer does that is set and cancelled for each packet."""
    keep = [queue.call_later(10**9, lambda: None) for _ in range(10)]
    for _ in range(10000):
        queue.call_later(10**9, lambda: None).cancel()
    assert len(queue._heap) < 200
    calls = []
    for timer in keep:
        timer.callback = lambda: calls.append(1)
    queue.now = 10**9
    queue.run_due()
    assert len(calls) == 10


@pytest.mark.hostile
def test_many_timers_that_are_due_at_once_take_several_rounds(queue):
    """All are called, in order, and what they leave of a round is for others."""
    calls, rounds = [], 0
    for number in range(10_000):
        queue.call_later(10, lambda number=number: calls.append(number))
    queue.now = 10
    while queue.next_ns() == 0:
        queue.budget.begin()
        before = len(calls)
        queue.run_due()
        assert queue.budget.steps <= TIMER_BUDGET + STEPS_PER_TIMER
        assert 64 <= len(calls) - before < 1000 or queue.next_ns() is None
        rounds += 1
    assert calls == list(range(10_000))
    assert rounds >= 10


def test_some_timers_are_called_in_a_round_that_is_over(queue):
    calls = []
    for number in range(100):
        queue.call_later(0, lambda number=number: calls.append(number))
    queue.budget.steps = TIMER_BUDGET + 1
    queue.run_due()
    assert calls == list(range(64))
