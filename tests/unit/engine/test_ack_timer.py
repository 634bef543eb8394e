"""How long a requester waits, on a clock that the test moves."""

import pytest
from helpers.world import HandClock

from emu.engine.rc.packets.ack_timer import TIMEOUT_FACTOR, AckTimer
from emu.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.vfio.timers import TimerQueue

CODE = 10
TIMEOUT = TIMEOUT_FACTOR * (ACK_TIMEOUT_UNIT_NS << CODE)


class Requester:
    """Counts what it is called for; goes on after a timeout as often as ``patience`` says."""

    def __init__(self, clock, patience=3):
        self.timeouts = self.turns = 0
        self.patience = patience
        self.timer = AckTimer(clock, self._timed_out, self._turn)

    def _timed_out(self):
        self.timeouts += 1
        self.timer.restart()
        return self.timeouts < self.patience

    def _turn(self):
        self.turns += 1


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def requester(clock):
    return Requester(clock)


def test_timeouts_until_there_is_nothing_to_wait_for(clock, requester):
    requester.timer.watch(CODE)
    clock.advance(TIMEOUT - 1)
    assert requester.timeouts == 0
    clock.advance(1)
    assert requester.timeouts == 1
    clock.advance(10 * TIMEOUT)
    assert requester.timeouts == 3
    assert clock.waiting() == 0


def test_code_0_is_for_ever(clock, requester):
    requester.timer.watch(0)
    assert clock.waiting() == 0


def test_progress_moves_the_deadline(clock, requester):
    requester.timer.watch(CODE)
    for _ in range(5):
        clock.advance(TIMEOUT - 1)
        requester.timer.restart()
    assert requester.timeouts == 0
    clock.advance(TIMEOUT)
    assert requester.timeouts == 1


def test_time_begins_when_a_response_is_due(clock, requester):
    """Not when the last one came: the timer still runs when the next request is sent."""
    requester.timer.watch(CODE)
    requester.timer.rest()
    clock.advance(TIMEOUT - 1)
    requester.timer.watch(CODE)
    clock.advance(TIMEOUT - 1)
    assert requester.timeouts == 0
    clock.advance(1)
    assert requester.timeouts == 1


def test_nothing_is_due_any_more(clock, requester):
    requester.timer.watch(CODE)
    requester.timer.rest()
    clock.advance(10 * TIMEOUT)
    assert requester.timeouts == 0
    assert clock.waiting() == 0


def test_receiver_that_asks_for_time(clock, requester):
    requester.timer.watch(CODE)
    requester.timer.pause(9)
    clock.advance(RNR_NAK_NS[9] - 1)
    assert requester.timer.is_paused
    assert requester.turns == 0
    clock.advance(1)
    assert not requester.timer.is_paused
    assert (requester.turns, requester.timeouts) == (1, 0)
    clock.advance(TIMEOUT)
    assert requester.timeouts == 1


def test_stop(clock, requester):
    requester.timer.watch(CODE)
    requester.timer.pause(9)
    requester.timer.stop()
    assert clock.waiting() == 0


class ManualQueue(TimerQueue):
    """The loop's timers: what a callback adds waits for the next round."""

    now = 0

    def now_ns(self):
        return self.now


@pytest.mark.parametrize("has_arrived", [True, False])
def test_host_that_was_busy_looks_at_what_has_arrived_first(has_arrived):
    """The process itself was late: answers wait in its sockets, which are read between rounds."""
    queue = ManualQueue()
    requester = Requester(queue)
    requester.timer.watch(CODE)
    queue.now = 7 * TIMEOUT
    queue.run_due()
    assert requester.timeouts == 0
    if has_arrived:
        requester.timer.rest()
    queue.run_due()
    assert requester.timeouts == (not has_arrived)
