"""How long a requester waits, on a clock that the test moves."""

import pytest

from emu.device.engine.rc.packets.ack_timer import FIRST_SHIFT, MIN_NS, TIMEOUT_FACTOR, AckTimer
from emu.device.engine.rc.timers import ACK_TIMEOUT_UNIT_NS, RNR_NAK_NS
from emu.driver.world.clock import HandClock
from emu.server.vfio.waits.timers import TimerQueue

CODE = 14
TIMEOUT = TIMEOUT_FACTOR * (ACK_TIMEOUT_UNIT_NS << CODE)
FIRST = TIMEOUT >> FIRST_SHIFT


class Requester:
    """Counts what it is called for; goes on after a timeout as often as ``patience`` says."""

    def __init__(self, clock, patience=3):
        self.timeouts = self.turns = self.questions = 0
        self.psn = 0
        self.patience = patience
        self.clock = clock
        self.timer = AckTimer(clock, self)

    def timed_out(self):
        self.timeouts += 1
        self.timer.restart()
        return self.timeouts < self.patience

    def ask(self):
        self.questions += 1
        self.timer.round_trip.asked(self.psn, self.clock.now_ns())

    def go_on(self):
        self.turns += 1

    def send(self, code=CODE):
        self.psn += 1
        self.timer.watch(code, self.psn)

    def answer(self):
        self.timer.progress(self.psn, is_all=True)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def requester(clock):
    return Requester(clock)


def test_timeouts_until_there_is_nothing_to_wait_for(clock, requester):
    requester.send()
    clock.advance(TIMEOUT - 1)
    assert requester.timeouts == 0
    clock.advance(1)
    assert requester.timeouts == 1
    clock.advance(10 * TIMEOUT)
    assert requester.timeouts == 3
    assert clock.waiting() == 0


def test_code_0_is_for_ever(clock, requester):
    requester.send(0)
    assert clock.waiting() == 0


def test_progress_moves_the_deadline(clock, requester):
    requester.send()
    for una in range(5):
        clock.advance(TIMEOUT - 1)
        requester.timer.progress(una, is_all=False)
    assert requester.timeouts == 0
    clock.advance(TIMEOUT)
    assert requester.timeouts == 1


def test_progress_sets_no_timer_anew(clock, requester, monkeypatch):
    """A timer that fires too early finds out how much of the time is left."""
    set_for, call_later = [], clock.call_later
    monkeypatch.setattr(
        clock, "call_later", lambda ns, call: set_for.append(ns) or call_later(ns, call)
    )
    requester.send()
    requester.answer()
    requester.send()
    already = len(set_for)
    for _ in range(100):
        requester.answer()
        requester.send()
    assert len(set_for) == already


def test_time_begins_when_a_response_is_due(clock, requester):
    """Not when the last one came: the timer still runs when the next request is sent."""
    requester.send()
    requester.answer()
    clock.advance(TIMEOUT - 1)
    requester.send()
    clock.advance(TIMEOUT - 1)
    assert requester.timeouts == 0
    clock.advance(1)
    assert requester.timeouts == 1


def test_nothing_is_due_any_more(clock, requester):
    requester.send()
    requester.answer()
    clock.advance(10 * TIMEOUT)
    assert (requester.timeouts, requester.questions) == (0, 0)
    assert clock.waiting() == 0


def test_questions_become_rarer_and_do_not_move_the_deadline(clock, requester):
    """Before anything was timed, the first one comes after the time of the code."""
    requester.send()
    clock.advance(FIRST - 1)
    assert requester.questions == 0
    clock.advance(1)
    assert requester.questions == 1
    clock.advance(FIRST)
    assert requester.questions == 2
    clock.advance(TIMEOUT - 2 * FIRST - 1)
    assert (requester.questions, requester.timeouts) == (2, 0)
    clock.advance(1)
    assert (requester.questions, requester.timeouts) == (2, 1)


def test_questions_are_early_where_responses_are_fast(clock, requester):
    requester.send()
    clock.advance(1)
    requester.answer()
    requester.send()
    clock.advance(MIN_NS - 1)
    assert requester.questions == 0
    clock.advance(1)
    assert requester.questions == 1
    clock.advance(TIMEOUT - MIN_NS - 1)
    assert requester.questions == 5  # after 1, 2, 4, 8, 16 times MIN_NS
    assert requester.timeouts == 0


def test_packet_that_was_sent_before_is_not_timed_from_now_on(clock, requester):
    requester.send()
    requester.send()
    clock.advance(FIRST // 2)
    requester.timer.progress(1, is_all=False)
    requester.timer.watch(CODE, requester.psn)  # a turn that sends nothing new
    clock.advance(1)
    requester.answer()
    assert requester.timer.round_trip.patience_ns(TIMEOUT) > FIRST // 2


def test_timer_that_was_set_for_longer_is_set_anew(clock, requester):
    """The one of the first request still runs when responses turn out to be fast."""
    requester.send()
    requester.answer()
    for _ in range(3):
        requester.send()
        clock.advance(1)
        requester.answer()
    requester.send()
    clock.advance(MIN_NS)
    assert requester.questions == 1


def test_receiver_that_asks_for_time(clock, requester):
    requester.send()
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
    requester.send()
    requester.timer.pause(9)
    requester.timer.stop()
    assert clock.waiting() == 0


class ManualQueue(TimerQueue):
    """The loop's timers: what a callback adds waits for the next round."""

    now = 0

    def now_ns(self):
        return self.now


@pytest.mark.parametrize("has_arrived", [True, False])
@pytest.mark.parametrize("late", [FIRST, 7 * TIMEOUT])
def test_host_that_was_busy_looks_at_what_has_arrived_first(has_arrived, late):
    """The process itself was late: answers wait in its sockets, which are read between rounds."""
    queue = ManualQueue()
    requester = Requester(queue)
    requester.send()
    queue.now = late
    queue.run_due()
    assert requester.timeouts + requester.questions == 0
    if has_arrived:
        requester.answer()
    queue.run_due()
    assert requester.timeouts + requester.questions == (not has_arrived)
