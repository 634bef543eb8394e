"""Hairpin queues: packets go from a receive queue to a send queue within the adapter.

No request is posted to either, and neither reports to a CQ. A pair is of one function or of two
functions of a board. Each names the other by the vhca id of its function and its number, so that
neither refers to the other: one may be destroyed, or its function reset, before the other.

Source: mlx5_ifc.h: rqc.hairpin, sqc.hairpin, wq.log_hairpin_data_sz; core/transobj.c:
mlx5_core_hairpin_create; DPDK's mlx5_devx.c.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.memory.pages import PageList
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.objects.queues.receive_queue import RecvQueue, RecvWqe
from emu.device.rounds.sizes import BYTES_PER_POLL

if TYPE_CHECKING:
    from emu.device.ports import GuestMemory

_PACKET_BYTES: Final = 200
"""What the host needs for a packet that waits, besides its bytes."""


class Peer(NamedTuple):
    """The other queue of a pair."""

    vhca: int
    """The vhca id of its function."""
    number: int


class Waiting(NamedTuple):
    """A frame that waits to be sent on (``emu.device.port.eth.frame``), and what it stands for."""

    data: bytes
    gso_size: int
    is_vouched: bool
    """Whether its checksums need not be looked at."""
    packets: int
    longest: int
    """Bytes of the longest packet."""
    octets: int
    """Bytes of all packets."""
    metadata: int = 0
    """Register B of the receive queue's tables: the send queue's tables find it in register A."""


class Hairpin(RecvQueue):
    """What a hairpin receive queue has instead of requests: room for packets.

    An adapter sends while it receives. Here the send queue has its turn later, so there is room for
    what comes in a turn beside the bytes that the driver has asked for.
    """

    def __init__(self, memory: GuestMemory, log_data_bytes: int, log_packets: int) -> None:
        super().__init__(
            memory, PageList(memory, array("Q"), 0, 0, 0), None, RqGeometry(0, 0, 0, 0, 0)
        )
        self.peer: Peer | None = None
        """The send queue of the pair; None before the queue is in RDY."""
        self._most_bytes = (1 << log_data_bytes) + BYTES_PER_POLL
        self._most_packets = 1 << log_packets
        self._waiting: deque[Waiting] = deque()
        self._octets = 0

    @property
    def host_bytes(self) -> int:
        """What its packets cost the host at most."""
        return self._most_bytes + self._most_packets * _PACKET_BYTES

    @property
    def size(self) -> int:
        """It has no requests."""
        return 0

    @property
    def size_bytes(self) -> int:
        """It has no ring."""
        return 0

    def produced(self) -> int:
        """There is no doorbell record."""
        return 0

    def posted(self) -> int:
        """Nothing is posted."""
        return 0

    def take(self) -> RecvWqe | None:
        """Nothing is posted."""
        return None

    def restart(self) -> None:
        """The queue went to RST: what waits is dropped, and the pair is no more."""
        self.peer = None
        self._waiting.clear()
        self._octets = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: Waiting) -> bool:
        """Let a frame wait; False when there is no room for it."""
        octets = self._octets + len(one.data)
        if len(self._waiting) >= self._most_packets or octets > self._most_bytes:
            return False
        self._waiting.append(one)
        self._octets = octets
        return True

    def pop(self) -> Waiting:
        """Take the frame that has waited longest; there is one."""
        one = self._waiting.popleft()
        self._octets -= len(one.data)
        return one

    def about(self) -> dict[str, object]:
        """For ``mlx5emu objects``."""
        return about(self.peer) | {"waiting": len(self._waiting)}


def about(peer: Peer | None) -> dict[str, object]:
    """What ``mlx5emu objects`` tells of a queue with this peer."""
    vhca, number = peer if peer is not None else (None, None)
    return {"hairpin": True, "peer_vhca": vhca, "peer": number}
