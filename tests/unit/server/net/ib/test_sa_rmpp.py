"""Tables that take several MADs: windows, acknowledgements, losses, receivers that misbehave."""

from types import SimpleNamespace

import pytest
from helpers.net.subnet import Subnet

from emu.driver.world.clock import HandClock
from emu.server.net.ib.sa import administrator, rmpp
from layouts.wire.mads import RESPONSE, MadStatus, Method
from layouts.wire.sa import (
    DATA_BYTES,
    RmppFlags,
    RmppStatus,
    RmppType,
    SaAttr,
    SaStatus,
    sa_mad,
)

PORTS = 9
"""Ten node records of 112 bytes each are six MADs."""
SEGMENTS = 6


@pytest.fixture
def subnet():
    return Subnet(PORTS)


@pytest.fixture
def table(subnet):
    """A request for all nodes, and the first segment of the answer."""
    request = subnet.request(Method.GET_TABLE, SaAttr.NODE_REC)
    subnet.send(1, request)
    (first,) = subnet.take(1)
    return request, first


def numbers(segments):
    return [segment.rmpp_hdr.seg_num for segment in segments]


def is_idle(subnet):
    return not len(subnet.sa.transfers) and subnet.clock.waiting() == 0


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_a_table_in_pieces(subnet, table, window):
    request, first = table
    assert first.mad_hdr.method == Method.GET_TABLE | RESPONSE
    assert first.rmpp_hdr.rmpp_flags == RmppFlags.ACTIVE | RmppFlags.FIRST
    data = subnet.collect(1, request, first, window)
    assert len(data) == (PORTS + 1) * 112
    assert is_idle(subnet)


def test_a_small_table_is_first_and_last(subnet):
    request = subnet.request(Method.GET_TABLE, SaAttr.NODE_REC, lid=1)
    subnet.send(1, request)
    (only,) = subnet.take(1)
    assert only.rmpp_hdr.rmpp_flags == RmppFlags.ACTIVE | RmppFlags.FIRST | RmppFlags.LAST
    assert only.rmpp_hdr.paylen_newwin == 20 + 112
    subnet.send(1, subnet.ack(request, 1, 1))
    assert is_idle(subnet)


def test_what_is_lost_is_sent_again(subnet, table):
    request, _ = table
    subnet.send(1, subnet.ack(request, 1, 4))
    assert numbers(subnet.take(1)) == [2, 3, 4]
    subnet.clock.advance(rmpp.ACK_TIMEOUT_NS)
    assert numbers(subnet.take(1)) == [2, 3, 4]
    subnet.send(1, subnet.ack(request, 3, 4))
    assert subnet.take(1) == []
    subnet.clock.advance(rmpp.ACK_TIMEOUT_NS)
    assert numbers(subnet.take(1)) == [4]


def test_old_acknowledgements_say_nothing(subnet, table):
    request, _ = table
    subnet.send(1, subnet.ack(request, 1, 3))
    subnet.send(1, subnet.ack(request, 3, 5))
    assert numbers(subnet.take(1)) == [2, 3, 4, 5]
    subnet.send(1, subnet.ack(request, 1, 3))
    subnet.send(1, subnet.ack(request, 2, 2))
    assert subnet.take(1) == []
    subnet.send(1, subnet.ack(request, 5, 9))
    assert numbers(subnet.take(1)) == [SEGMENTS]


def test_a_receiver_that_is_silent_is_given_up(subnet, table):
    for _ in range(rmpp.MAX_TRIES - 1):
        subnet.clock.advance(rmpp.ACK_TIMEOUT_NS)
        assert numbers(subnet.take(1)) == [1]
    subnet.clock.advance(rmpp.ACK_TIMEOUT_NS)
    assert_aborted(subnet, RmppStatus.TMR)


def test_segments_that_wait_for_the_worker_are_no_loss():
    """The worker's earlier jobs take longer than a receiver may to acknowledge."""
    clock, jobs, sent = HandClock(), [], []
    sender = rmpp.RmppSender(clock, SimpleNamespace(begin=jobs.append), lambda lid: lid)
    sender.start((1, 1, 7), sa_mad.new(), bytes(2 * DATA_BYTES), sent.append)
    for _ in range(rmpp.MAX_TRIES + 1):
        clock.advance(rmpp.ACK_TIMEOUT_NS)
    assert (sent, len(jobs)) == ([], 1)
    list(jobs[0])
    (first,) = (sa_mad.view(bytearray(data)).rmpp_hdr for data in sent)
    assert (first.rmpp_type, first.seg_num) == (RmppType.DATA, 1)


def test_a_transfer_whose_send_raises_is_given_up():
    clock, jobs = HandClock(), []

    def refuse(_data):
        raise OSError

    sender = rmpp.RmppSender(clock, SimpleNamespace(begin=jobs.append), lambda lid: lid)
    sender.start((1, 1, 7), sa_mad.new(), bytes(DATA_BYTES), refuse)
    for _ in range(rmpp.MAX_TRIES - 1):
        with pytest.raises(OSError):
            list(jobs.pop())
        clock.advance(rmpp.ACK_TIMEOUT_NS)
    with pytest.raises(OSError):
        list(jobs.pop())
    with pytest.raises(OSError):
        clock.advance(rmpp.ACK_TIMEOUT_NS)
    assert not len(sender)


def assert_aborted(subnet, status):
    (last,) = subnet.take(1)
    assert last.rmpp_hdr.rmpp_type == RmppType.ABORT
    assert (last.rmpp_hdr.rmpp_status, last.rmpp_hdr.seg_num) == (status, 0)
    assert last.mad_hdr.method & RESPONSE
    assert is_idle(subnet)


@pytest.mark.parametrize(
    ("seg_num", "window", "status"),
    [(2, 5, RmppStatus.S2B), (0xFFFFFFFF, 0xFFFFFFFF, RmppStatus.S2B), (1, 0, RmppStatus.W2S)],
)
def test_acknowledgements_that_cannot_be(subnet, table, seg_num, window, status):
    request, _ = table
    subnet.send(1, subnet.ack(request, seg_num, window))
    assert_aborted(subnet, status)


@pytest.mark.parametrize(
    "change",
    [
        {"rmpp_type": RmppType.STOP, "rmpp_status": 1},
        {"rmpp_type": RmppType.ABORT, "rmpp_status": RmppStatus.T2L},
        {"rmpp_status": RmppStatus.UNSPEC},
        {"rmpp_type": 7},
    ],
)
def test_a_receiver_can_end_it(subnet, table, change):
    request, _ = table
    subnet.send(1, subnet.ack(request, 1, 5, **change))
    assert not subnet.inboxes
    assert is_idle(subnet)


def test_a_request_that_is_repeated_starts_nothing_new(subnet, table):
    request, _ = table
    subnet.send(1, request)
    assert not subnet.inboxes
    assert len(subnet.sa.transfers) == 1


@pytest.mark.parametrize("lid", [1, 2])
def test_a_stranger_cannot_acknowledge(subnet, table, lid):
    request, _ = table
    subnet.send(lid, subnet.ack(request, 1, 5), qpn=1 + (lid == 1))
    assert not subnet.inboxes
    assert len(subnet.sa.transfers) == 1


def test_requests_come_in_one_piece(subnet):
    request = subnet.request(Method.GET_TABLE, SaAttr.NODE_REC)
    request.rmpp_hdr = {"rmpp_version": 1, "rmpp_type": RmppType.DATA, "rmpp_flags": 7}
    subnet.send(1, request)
    assert_aborted(subnet, RmppStatus.UNSPEC)
    request.rmpp_hdr.rmpp_version = 2
    subnet.send(1, request)
    assert_aborted(subnet, RmppStatus.UNV)


def test_transfers_are_bounded_for_each_port(subnet):
    for _ in range(rmpp.MAX_TRANSFERS_OF_A_PORT):
        subnet.send(1, subnet.request(Method.GET_TABLE, SaAttr.NODE_REC))
        assert numbers(subnet.take(1)) == [1]
    subnet.send(1, subnet.request(Method.GET_TABLE, SaAttr.NODE_REC))
    (busy,) = subnet.take(1)
    assert busy.mad_hdr.status == MadStatus.BUSY
    assert subnet.ask(2, Method.GET_TABLE, SaAttr.NODE_REC).records


def test_transfers_are_bounded_in_all(subnet, monkeypatch):
    monkeypatch.setattr(rmpp, "MAX_TRANSFERS", 1)
    subnet.send(1, subnet.request(Method.GET_TABLE, SaAttr.NODE_REC))
    assert subnet.ask(2, Method.GET_TABLE, SaAttr.NODE_REC).status == MadStatus.BUSY


def test_tables_are_bounded(subnet, monkeypatch):
    monkeypatch.setattr(administrator, "MAX_RECORDS", PORTS)
    answer = subnet.ask(1, Method.GET_TABLE, SaAttr.NODE_REC)
    assert answer.status == SaStatus.NO_RESOURCES
    assert len(subnet.ask(1, Method.GET_TABLE, SaAttr.PATH_REC, slid=1, dlid=1).records) == 1


def test_nothing_is_sent_twice_to_a_receiver_that_repeats_its_window(subnet, table):
    request, _ = table
    subnet.send(1, subnet.ack(request, 1, 3))
    assert numbers(subnet.take(1)) == [2, 3]
    for _ in range(3):
        subnet.send(1, subnet.ack(request, 1, 3))
    assert subnet.take(1) == []


def test_every_segment_is_a_mad_of_its_own(subnet, table):
    request, first = table
    subnet.send(1, subnet.ack(request, 1, 9))
    rest = subnet.take(1)
    assert numbers(rest) == [2, 3, 4, 5, 6]
    assert {bytes(part)[: sa_mad.size - 200 - 20 - 12] for part in (first, *rest)} == {
        bytes(first)[:24]
    }
    assert {part.attr_offset for part in (first, *rest)} == {14}
    middle = rest[1].rmpp_hdr
    assert (middle.rmpp_flags, middle.paylen_newwin) == (RmppFlags.ACTIVE, 0)
