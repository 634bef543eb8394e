"""Hairpin queues: the adapter forwards packets from a receive queue to a send queue.

Neither queue has WQEs or a CQ. A pair belongs to one function or to two functions of a board. Each
queue names its peer by vhca id and number and holds no reference to it. Either queue may be
destroyed, or its function reset, before the other.

Source: mlx5_ifc.h: rqc.hairpin, sqc.hairpin, wq.log_hairpin_data_sz; core/transobj.c:
mlx5_core_hairpin_create; DPDK's mlx5_devx.c.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.eth.sq import AnySq
from emu.device.objects.memory.pages import PageList
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.objects.queues.receive_queue import RecvQueue, RecvWqe
from emu.device.rounds.sizes import BYTES_PER_POLL

if TYPE_CHECKING:
    from emu.device.objects.eth.tis import Tis
    from emu.device.ports import GuestMemory
    from layouts.objects.sq import sqc

_PACKET_BYTES: Final = 200
"""Bytes of host memory for a waiting packet, besides its data."""


class Peer(NamedTuple):
    """The other queue of a pair."""

    vhca: int
    """The vhca id of its function."""
    number: int


class Waiting(NamedTuple):
    """A frame that waits for the send queue (``emu.device.port.eth.frame``)."""

    data: bytes
    gso_size: int
    is_vouched: bool
    """Whether its checksums are known to be valid."""
    packets: int
    longest: int
    """Bytes of the longest packet."""
    octets: int
    """Bytes of all packets."""
    metadata: int = 0
    """Register B of the receive queue's tables, which the send queue's tables read as register A.
    """


class Hairpin(RecvQueue):
    """A buffer for packets, which a hairpin receive queue has instead of WQEs.

    An adapter sends while it receives. Here the send queue is polled later, so the buffer holds the
    bytes that the driver requested plus those of one poll.
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
        """Maximum cost of its packets on the host, in bytes."""
        return self._most_bytes + self._most_packets * _PACKET_BYTES

    @property
    def size(self) -> int:
        """Zero, as the queue has no WQEs."""
        return 0

    @property
    def size_bytes(self) -> int:
        """Zero, as the queue has no ring."""
        return 0

    def produced(self) -> int:
        """Return 0, as the queue has no doorbell record."""
        return 0

    def posted(self) -> int:
        """Return 0, as the queue has no WQEs."""
        return 0

    def take(self) -> RecvWqe | None:
        """Return None, as the queue has no WQEs."""
        return None

    def restart(self) -> None:
        """Drop the waiting packets, without a count, and unpair the queue, which went to RST."""
        self.peer = None
        self._waiting.clear()
        self._octets = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: Waiting) -> bool:
        """Queue a frame for the send queue.

        Return False, and keep none of it, if the buffer is full. The limits are the driver's
        packets, and its bytes plus those of one poll. The caller counts a drop.
        """
        octets = self._octets + len(one.data)
        if len(self._waiting) >= self._most_packets or octets > self._most_bytes:
            return False
        self._waiting.append(one)
        self._octets = octets
        return True

    def pop(self) -> Waiting:
        """Remove and return the oldest frame. Raises IndexError when none waits."""
        one = self._waiting.popleft()
        self._octets -= len(one.data)
        return one

    def about(self) -> dict[str, object]:
        """Return the fields for ``mlx5emu objects``."""
        return about(self.peer) | {"waiting": len(self._waiting)}


def about(peer: Peer | None) -> dict[str, object]:
    """Return the fields of a hairpin queue with this peer for ``mlx5emu objects``.

    ``peer_vhca`` and ``peer`` are None before the queue is in RDY.
    """
    vhca, number = peer if peer is not None else (None, None)
    return {"hairpin": True, "peer_vhca": vhca, "peer": number}


class HairpinSq(AnySq):
    """A send queue for the packets of a hairpin receive queue."""

    __slots__ = ("peer",)

    def __init__(self, ctx: sqc, tis: Tis | None) -> None:
        super().__init__(ctx, None, tis)
        self.peer: Peer | None = None
        """The receive queue of the pair; None before the queue is in RDY."""

    def restart(self) -> None:
        """Unpair the queue, which went to RST."""
        self.peer = None

    def about(self) -> dict[str, object]:
        return about(self.peer)
