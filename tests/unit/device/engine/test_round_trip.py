"""What a requester learns of how long responses take."""

import pytest

from emu.device.engine.rc.packets.ack_timer import MIN_NS, RoundTrip

MS = 1_000_000
LAST = 0xFFFFFF
TIMEOUT = 400 * MS
FIRST = TIMEOUT // 4


@pytest.fixture
def trip():
    return RoundTrip()


def patience(trip):
    return trip.patience_ns(TIMEOUT)


def respond(trip, took_ms, psn=1, at=0):
    trip.sent(psn, at)
    trip.acknowledged(psn, at + took_ms * MS)


def test_patience_before_anything_was_timed(trip):
    assert patience(trip) == FIRST


def test_fast_responses_leave_the_least_patience(trip):
    for psn in range(1, 30):
        respond(trip, 0, psn)
    assert patience(trip) == MIN_NS


def test_patience_follows_responses(trip):
    for psn in range(1, 60):
        respond(trip, 20, psn)
    assert 20 * MS <= patience(trip) < 22 * MS
    respond(trip, 60, 60)
    assert patience(trip) > 60 * MS


def test_one_packet_at_a_time_is_timed(trip):
    trip.sent(5, 0)
    trip.sent(9, 19 * MS)
    trip.acknowledged(3, 19 * MS)
    assert patience(trip) == FIRST
    trip.acknowledged(9, 20 * MS)
    assert patience(trip) == 60 * MS


def test_packets_that_were_sent_twice_do_not_count(trip):
    respond(trip, 1, LAST)
    known = patience(trip)
    trip.sent(5, 0)
    trip.resent(7)
    trip.acknowledged(5, 900 * MS)
    trip.sent(7, 1000 * MS)  # sent before that, too
    trip.acknowledged(7, 1900 * MS)
    assert patience(trip) == known
    respond(trip, 100, 8)
    assert patience(trip) > known


def test_packet_that_was_lost_counts_when_it_comes_again(trip):
    trip.sent(5, 0)
    trip.resent(7)
    trip.went_back(4, 100 * MS)
    trip.acknowledged(4, 120 * MS)
    assert patience(trip) == 60 * MS


def test_patience_stays_longer_after_questions_until_a_response_is_timed(trip):
    respond(trip, 1, 1)
    trip.sent(2, 0)
    trip.asked(2, 10 * MS)
    assert patience(trip) == 2 * MIN_NS
    trip.asked(2, 20 * MS)
    trip.acknowledged(2, 35 * MS)  # long after the question: the peer was slow
    assert patience(trip) == 4 * MIN_NS
    respond(trip, 3, 3, at=50 * MS)
    assert patience(trip) == MIN_NS


def test_question_that_is_answered_fast_was_a_good_one(trip):
    respond(trip, 1, 1)
    trip.sent(2, 0)
    trip.asked(2, 10 * MS)
    trip.acknowledged(2, 11 * MS)
    assert patience(trip) == MIN_NS
