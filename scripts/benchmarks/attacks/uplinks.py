"""Hostile streams from an uplink, whose segments the server merges to super-frames."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from functools import partial

from attacks.rounds import GROUP_MAC, MODEL_ETH, receive_all, refill
from attacks.watch import Watch, check_arrived, pattern, probed
from emu.driver.ethernet.frames import EthPacket
from emu.driver.verbs.node import Node
from emu.server.net.eth.framed import LENGTH
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.passt import PasstUplink
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.poller import Poller
from emu.server.vfio.loop import Loop

QUEUES = 64
FLOOD = 4 << 20
"""Number of bytes that passt sends."""
ROUNDS = 3000
LEAST = 300
"""Minimum number of packets that have to arrive."""
ACK = 0x10


class Uplinked:
    """Function on a segment with passt; each frame is forwarded to all of its queues."""

    def __init__(self, watch: Watch, queues: int) -> None:
        self.watch, self.loop = watch, Loop()
        switch = SegmentSwitch(self.loop)
        port = FunctionPort("function 0", switch)
        node = Node(*probed(watch, MODEL_ETH, 1, self.loop, ram=16 << 20, eth_wire=port))
        self.function = node.function
        self.rqs = receive_all(node, queues, 0)
        ours, self.passt = socket.socketpair()
        self.passt.setblocking(False)
        switch.add(PasstUplink(ours, switch, Poller(self.loop), switch.remove))

    def flood(self, data: bytes) -> None:
        """Send at the rate at which the server reads, and receive at the rate of its rounds."""
        left = memoryview(data)
        for _ in range(ROUNDS):
            with contextlib.suppress(BlockingIOError):
                left = left[self.passt.send(left) :]
            self.watch.round(partial(self.loop.step, 0))
            self.watch.round(self.function.run)
            refill(self.rqs)
        check_arrived([self.function], LEAST)


def _stream(payload: int, step: int) -> bytes:
    """Return segments of ``payload`` bytes, each ``step`` sequence numbers after the one before."""
    frames = []
    for number in range(FLOOD // (payload + 58)):
        packet = EthPacket(
            flags=ACK, identifier=0, sequence=number * step & 0xFFFFFFFF, payload=bytes(payload)
        )
        frame = GROUP_MAC + packet.frame()[len(GROUP_MAC) :]
        frames.append(LENGTH.pack(len(frame)) + frame)
    return b"".join(frames)


def _flooded(watch: Watch, payload: int, step: int, queues: int = QUEUES) -> Iterator[None]:
    uplinked, stream = Uplinked(watch, queues), _stream(payload, step)
    yield
    uplinked.flood(stream)


@pattern(f"a stream from passt in segments of one byte, to {QUEUES} queues")
def tiny_segments(watch: Watch) -> Iterator[None]:
    yield from _flooded(watch, 1, 1)


@pattern(f"a stream from passt in segments of 1400 bytes, to {QUEUES} queues")
def full_segments(watch: Watch) -> Iterator[None]:
    yield from _flooded(watch, 1400, 1400)


@pattern("segments from passt, none of which continues the one before")
def out_of_order(watch: Watch) -> Iterator[None]:
    yield from _flooded(watch, 1, 7, queues=1)
