"""Sums of the messages of a direct path, which ports count later."""

import pytest

from emu.device.objects.queues.direct_path import (
    AETH_BYTES,
    BTH_AND_ICRC_BYTES,
    MAX_LENGTHS,
    MAX_UNCOUNTED,
    DirectPath,
)
from emu.device.port.eth.port import EthPort
from emu.device.port.eth.roce.gids import GidTable
from emu.device.port.eth.roce.link import RoceLink
from emu.device.port.eth.vport import NicVport
from emu.device.port.ib.counts import IbCounts
from emu.device.rounds.budget import RX_BUDGET

HEADER, MTU = 8, 4096
EACH = HEADER + BTH_AND_ICRC_BYTES


def path_of(ours, theirs, *, has_acks=True):
    return DirectPath(
        (1, None, None), ours, theirs, HEADER, MTU, None, has_acks=has_acks, is_up=True,
        reads_ahead=False,
    )  # fmt: skip


def send(path, octets=64):
    if octets in path.lengths:
        path.lengths[octets] += 1
    else:
        path.count_first(octets)


def totals(port):
    return [(traffic.packets, traffic.octets) for traffic in port.totals()]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_either_port_counts_for_both(first):
    ours, theirs = IbCounts(), IbCounts()
    path = path_of(ours, theirs)
    send(path)
    send(path, 5000)
    requests, acks = (3, 3 * EACH + 5064), (2, 2 * (EACH + AETH_BYTES))
    for port in (ours, theirs) if first == "ours" else (theirs, ours):
        assert totals(port) == ([requests, acks] if port is ours else [acks, requests])
    assert totals(ours) == [requests, acks]
    assert not path.lengths
    send(path)
    assert totals(theirs)[1] == (4, 4 * EACH + 5128)


def test_loop_counts_as_sent_received_and_looped():
    port = IbCounts()
    send(path_of(port, port))
    both = 2, 2 * EACH + 64 + AETH_BYTES
    assert totals(port) == [both, both]
    looped = port.counters()["local_loopback"]
    assert (looped.packets, looped.octets) == both


def test_datagrams_of_a_connection_have_no_acks():
    ours, theirs = IbCounts(), IbCounts()
    send(path_of(ours, theirs, has_acks=False))
    assert totals(ours) == [(1, EACH + 64), (0, 0)]


def test_few_paths_wait():
    ours, theirs = IbCounts(), IbCounts()
    for _ in range(3 * MAX_UNCOUNTED + 5):
        send(path_of(ours, theirs))
        assert len(ours.uncounted) <= MAX_UNCOUNTED
    assert totals(ours)[0] == (3 * MAX_UNCOUNTED + 5, (3 * MAX_UNCOUNTED + 5) * (EACH + 64))


def test_few_lengths_wait():
    ours, theirs = IbCounts(), IbCounts()
    path = path_of(ours, theirs)
    for length in range(3 * MAX_LENGTHS + 5):
        send(path, length)
        assert len(path.lengths) <= MAX_LENGTHS
        assert len(ours.uncounted) <= 1 + length // MAX_LENGTHS
    assert totals(ours)[0][0] == 3 * MAX_LENGTHS + 5


def test_a_reader_counts_no_longer_than_a_round():
    """A length takes about a step, 2.5 us, at two vPorts, and nobody charges for it."""
    ours, theirs = IbCounts(), IbCounts()
    for path in [path_of(ours, theirs) for _ in range(MAX_UNCOUNTED)]:
        for length in range(MAX_LENGTHS):
            send(path, length)
    assert len(ours.uncounted) * MAX_LENGTHS <= RX_BUDGET
    assert totals(ours)[0][0] == MAX_UNCOUNTED * MAX_LENGTHS


def test_packets_of_long_and_short_messages_have_their_own_sizes():
    port = EthPort()
    ours, theirs = (NicVport(port, guid, bytes(6)) for guid in (1, 2))
    path = path_of(*(RoceLink(vport, GidTable(1)) for vport in (ours, theirs)))
    for _ in range(3):
        send(path, 64)
        send(path, 8192)
    sent, received = ours.totals()
    sizes = [count for count in sent.sizes if count]
    assert sizes == [3, 6]
    assert received.packets == 6
    assert theirs.port_traffic()[1].sizes == sent.sizes
