"""Sums of the messages of a direct path, which ports count later."""

import pytest

from emu.device.objects.queues.direct_path import AETH_BYTES, BTH_AND_ICRC_BYTES, DirectPath
from emu.device.port.ib.counts import MAX_UNCOUNTED, IbCounts

HEADER = 8
EACH = HEADER + BTH_AND_ICRC_BYTES


def path_of(ours, theirs, *, has_acks=True):
    return DirectPath(
        (1, None, None), ours, theirs, HEADER, None, has_acks=has_acks, reads_ahead=False
    )


def send(path, packets=1, octets=64):
    path.messages += 1
    path.packets += packets
    path.octets += octets
    if path.is_counted:
        path.count_later()


def totals(port):
    return [(traffic.packets, traffic.octets) for traffic in port.totals()]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_either_port_counts_for_both(first):
    ours, theirs = IbCounts(), IbCounts()
    path = path_of(ours, theirs)
    send(path)
    send(path, packets=2, octets=5000)
    requests, acks = (3, 3 * EACH + 5064), (2, 2 * (EACH + AETH_BYTES))
    for port in (ours, theirs) if first == "ours" else (theirs, ours):
        assert totals(port) == ([requests, acks] if port is ours else [acks, requests])
    assert totals(ours) == [requests, acks]
    assert path.is_counted
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
