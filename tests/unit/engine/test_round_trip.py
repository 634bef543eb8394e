"""What a requester learns of how long responses take."""

import pytest

from emu.engine.rc.packets.round_trip import FIRST_NS, LEAST_NS, RoundTrip

MS = 1_000_000
LAST = 0xFFFFFF


@pytest.fixture
def trip():
    return RoundTrip()


def respond(trip, took_ms, psn=1, at=0):
    trip.sent(psn, at)
    trip.acknowledged(psn, at + took_ms * MS)


def test_patience_before_anything_was_timed(trip):
    assert trip.patience_ns == FIRST_NS


def test_fast_responses_leave_the_least_patience(trip):
    for psn in range(1, 30):
        respond(trip, 0, psn)
    assert trip.patience_ns == LEAST_NS


def test_patience_follows_responses(trip):
    for psn in range(1, 60):
        respond(trip, 20, psn)
    assert 20 * MS <= trip.patience_ns < 22 * MS
    respond(trip, 60, 60)
    assert trip.patience_ns > 60 * MS


def test_each_try_doubles_it_until_there_is_progress(trip):
    trip.tries = 2
    assert trip.patience_ns == 4 * FIRST_NS
    trip.acknowledged(1, 0)
    assert trip.patience_ns == FIRST_NS


def test_one_packet_at_a_time_is_timed(trip):
    trip.sent(5, 0)
    trip.sent(9, 19 * MS)
    trip.acknowledged(3, 19 * MS)
    assert trip.patience_ns == FIRST_NS
    trip.acknowledged(9, 20 * MS)
    assert trip.patience_ns == 60 * MS


def test_packets_that_were_sent_twice_do_not_count(trip):
    respond(trip, 1, LAST)
    known = trip.patience_ns
    trip.sent(5, 0)
    trip.resend(7)
    trip.acknowledged(5, 900 * MS)
    trip.sent(7, 1000 * MS)  # sent before that, too
    trip.acknowledged(7, 1900 * MS)
    assert trip.patience_ns == known
    respond(trip, 100, 8)
    assert trip.patience_ns > known


def test_packets_after_a_nak_count(trip):
    trip.sent(5, 0)
    trip.dropped()
    respond(trip, 20, 5, at=100 * MS)
    assert trip.patience_ns == 60 * MS


def test_response_that_outlasts_some_tries_was_on_a_long_way(trip):
    respond(trip, 1, 1)
    trip.sent(2, 0)
    trip.resend(2)
    trip.tries = 3
    trip.acknowledged(2, 80 * MS)
    assert trip.patience_ns > 80 * MS
