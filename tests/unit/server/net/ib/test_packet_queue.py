"""Packets that wait for functions of this process: the sender is told, and the queue is bounded."""

import pytest

from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.driver.world.clock import HandClock
from emu.server.net.ib.packet_queue import MAX_PACKETS, ROOM, PacketQueue

pytestmark = pytest.mark.hostile


def test_senders_that_do_not_wait_lose_packets(monkeypatch):
    clock = HandClock()
    queue = PacketQueue(clock, lambda _lid: None)
    arrived = []
    monkeypatch.setattr(queue, "_arrive", arrived.append)
    room = [queue.add(b"packet") for _ in range(MAX_PACKETS + 100)]
    assert room == [True] * (ROOM - 1) + [False] * (MAX_PACKETS + 100 - ROOM + 1)
    woken = []
    queue.when_ready(lambda: woken.append(len(arrived)))
    clock.advance(0)
    (first,) = woken
    assert MAX_PACKETS - ROOM < first <= MAX_PACKETS - ROOM + PACKETS_PER_POLL
    assert len(arrived) == MAX_PACKETS
    assert queue.add(b"packet")
