"""On-demand paging: what a page fault is, what its event says, and which faults are open.

A queue pair that meets an absent page waits, on the side that met it; its driver learns of it by an
event and ends it by PAGE_FAULT_RESUME, which names the event's token. The transport scheme tells
the driver which work request or which RDMA it was, the memory scheme which key and which pages
(PRM "On-demand paging"; include/linux/mlx5/device.h: mlx5_eqe_page_fault; hw/odp.c).

Nothing here knows a device: ``emu.engine.mr.page_faults`` puts it to work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from layouts.enums import PageFaultSubtype
from layouts.eqe import eqe_page_fault_memory, eqe_page_fault_rdma, eqe_page_fault_wqe

if TYPE_CHECKING:
    from emu.objects import Qp
    from emu.objects.ledger import Ledger
    from emu.ports import Timer

TRANSPORT_TOKEN_BITS, MEMORY_TOKEN_BITS = 24, 48
FAULT_BYTES = 1024
"""What an open fault costs the host."""

_ACCOUNT = "page fault"

MOST_LAPSED = 4096
"""Faults whose queue pair has gone: so many are remembered, for a driver that resumes late."""

PAGE_BYTES = 4096
"""What the memory scheme counts in (hw/odp.c: MEMORY_SCHEME_PAGE_FAULT_GRANULARITY)."""

_WQE = eqe_page_fault_wqe.packer(
    "bytes_committed", "wqe_index", "packet_length", "token", "pftype_wq"
)
_RDMA = eqe_page_fault_rdma.packer(
    "bytes_committed", "r_key", "packet_length", "rdma_op_len", "rdma_va", "pftype_token"
)
_MEMORY = eqe_page_fault_memory.packer(
    "flags", "token47_32", "token31_0", "demand_fault_pages", "mkey", "va"
)
_LAST = 1 << 7
_MOST_PACKET = 0xFFFF


class Side(Enum):
    """Which half of a queue pair waits."""

    REQUESTER = "requester"
    RESPONDER = "responder"


class Kind(IntEnum):
    """page_fault_type: bit 0 requester, bit 1 write, bit 2 RDMA.

    The first four are about a work request, whose queue the event names (device.h:
    MLX5_WQE_PF_TYPE_*); the others are about an RDMA that arrives.
    """

    SHARED_RECEIVE = 0
    SEND_OR_WRITE = 1
    RECEIVE = 2
    READ_OR_ATOMIC = 3
    RDMA_READ = 4
    RDMA_WRITE = 6


@dataclass(frozen=True, slots=True)
class Page:
    """What was absent, as ``emu.engine.mr.rights.PageFault`` says, which may hold on to views."""

    key: int
    va: int
    length: int

    def __str__(self) -> str:
        return f"key {self.key:#x}, {self.va:#x}+{self.length:#x}"


@dataclass(frozen=True, slots=True)
class Access:
    """What was going on when a page was found absent."""

    kind: Kind
    packet_length: int
    """Bytes of the packet concerned, at a responder."""
    number: int = 0
    """Of a work request, the queue pair's or shared receive queue's number, and its index."""
    wqe_index: int = 0
    r_key: int = 0
    """Of an RDMA: key, address and length of the whole operation."""
    va: int = 0
    length: int = 0
    committed: int = 0
    """Bytes of the request or operation that are transferred, and will not be again.

    The driver brings in what lies behind them (hw/odp.c: pagefault_data_segments).
    """


class Fault:
    """One side of a queue pair waits for its driver.

    ``refuse`` is what happens when the driver gives up: it fails what has faulted and returns what
    the waiting peer is to be told, if anything. ``go_on`` is called when the waiting is over, with
    that answer or with None, for "try again".
    """

    __slots__ = (
        "access", "go_on", "is_memory", "is_open", "page", "qp", "raised_ns", "refuse", "side",
        "token",
    )  # fmt: skip

    def __init__(
        self,
        qp: Qp,
        side: Side,
        access: Access,
        page: Page,
        refuse: Callable[[], Exception | None],
    ) -> None:
        self.qp = qp
        self.side = side
        self.access = access
        self.page = page
        self.refuse = refuse
        self.go_on: Callable[[Exception | None], None] | None = None
        self.is_memory = False
        self.is_open = False
        self.token = 0
        self.raised_ns = 0

    def __repr__(self) -> str:
        return f"page fault {self.token:#x} of {self.qp!r} ({self.side.value})"

    def event(self, token: int | None = None) -> tuple[PageFaultSubtype, bytes]:
        """The event's sub-type and data, with its own token or another one."""
        access, page = self.access, self.page
        if token is None:
            token = self.token
        else:
            token &= (1 << (MEMORY_TOKEN_BITS if self.is_memory else TRANSPORT_TOKEN_BITS)) - 1
        packet = min(access.packet_length, _MOST_PACKET)
        if self.is_memory:
            start = page.va & -PAGE_BYTES
            pages = -(-(page.va + page.length - start) // PAGE_BYTES)
            return PageFaultSubtype.MEMORY, _MEMORY.pack(
                _LAST, token >> 32, token & 0xFFFFFFFF, pages * PAGE_BYTES,
                page.key, start,
            )  # fmt: skip
        if access.kind in (Kind.RDMA_READ, Kind.RDMA_WRITE):
            return PageFaultSubtype.RDMA, _RDMA.pack(
                access.committed, access.r_key, packet, access.length, access.va,
                _typed(access.kind, token),
            )  # fmt: skip
        return PageFaultSubtype.WQE, _WQE.pack(
            access.committed, access.wqe_index, packet, token, _typed(access.kind, access.number)
        )

    def is_named_by(self, kind: int, number: int) -> bool:
        """Whether a resume with this type and number means it.

        The number is the queue's, or for an RDMA the token once more (hw/odp.c).
        """
        access = self.access
        if access.kind in (Kind.RDMA_READ, Kind.RDMA_WRITE):
            return kind == access.kind and number == self.token
        return kind == access.kind and number == access.number


def _typed(kind: Kind, number: int) -> bytes:
    """pftype_wq and pftype_token: the kind in front of 24 bits."""
    return (kind << 24 | number).to_bytes(4, "big")


class Held(Exception):  # noqa: N818  # not an error: a responder waits for its driver
    """A responder waits; who wanted something of it sets the fault's ``go_on``."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(repr(fault))
        self.fault = fault


class FaultTable:
    """Open faults by token, and the tokens of those whose queue pair stopped meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: dict[int, Fault] = {}
        self._lapsed: dict[int, None] = {}
        self._last = 0
        self.untold: OrderedDict[int, Fault] = OrderedDict()
        """Open faults whose events their queue has no room for, the oldest first."""
        self.timer: Timer | None = None
        """The next look at that queue."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self) -> list[Fault]:
        """All open faults."""
        return list(self._open.values())

    def add(self, fault: Fault) -> None:
        """Open a fault under a token that no other one has."""
        bits = MEMORY_TOKEN_BITS if fault.is_memory else TRANSPORT_TOKEN_BITS
        token = self._last
        while True:
            token = (token + 1) & (1 << bits) - 1
            if token and token not in self._open and token not in self._lapsed:
                break
        self._last = fault.token = token
        fault.is_open = True
        self._open[token] = fault
        # Each side of a queue pair has one at most: there is nothing to refuse.
        self._ledger.hold(_ACCOUNT, FAULT_BYTES)

    def find(self, token: int) -> Fault | None:
        """The open fault with this token."""
        return self._open.get(token)

    def close(self, fault: Fault) -> None:
        """The driver has resumed it."""
        fault.is_open = False
        del self._open[fault.token]
        self._ledger.give_back(_ACCOUNT, FAULT_BYTES)
        self.untold.pop(fault.token, None)

    def lapse(self, fault: Fault) -> None:
        """Its queue pair stops; the driver may not know yet, and resume it."""
        self.close(fault)
        self._lapsed[fault.token] = None
        if len(self._lapsed) > MOST_LAPSED:
            del self._lapsed[next(iter(self._lapsed))]

    def forget(self, token: int) -> bool:
        """Whether this is the late resume of a fault that has lapsed; there is only one."""
        if token not in self._lapsed:
            return False
        del self._lapsed[token]
        return True
