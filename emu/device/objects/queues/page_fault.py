"""On-demand paging: page faults, the contents of their events, and the table of open ones.

When a queue pair accesses an absent page, the side that accessed the page waits. An event notifies
the driver, and PAGE_FAULT_RESUME with the event's token ends the wait. The transport scheme reports
the affected WQE or RDMA operation, the memory scheme the key and the pages (PRM "On-demand paging";
include/linux/mlx5/device.h: mlx5_eqe_page_fault; hw/odp.c).

The module does not depend on a device; ``emu.device.engine.mr.page_faults`` is its user.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.objects.queues.outcome import Outcome
from layouts.enums.eqe import PageFaultSubtype
from layouts.rings.eqe import eqe_page_fault_memory, eqe_page_fault_rdma, eqe_page_fault_wqe

if TYPE_CHECKING:
    from emu.device.objects.ledger import Ledger
    from emu.device.objects.queues.qp import Qp
    from emu.device.ports import Timer

_TRANSPORT_TOKEN: Final = (1 << 24) - 1
_MEMORY_TOKEN: Final = (1 << 48) - 1
"""Masks of tokens, by scheme."""
PAGE_FAULT_BYTES: Final = 1024
"""Cost of an open page fault on the host, in bytes."""

_ACCOUNT: Final = "page fault"

MAX_LAPSED_FAULTS: Final = 4096
"""Maximum number of remembered lapsed faults (of stopped queue pairs), for late resumes."""

PAGE_BYTES: Final = 4096
"""Page size of the memory scheme (hw/odp.c: MEMORY_SCHEME_PAGE_FAULT_GRANULARITY)."""

_WQE: Final = eqe_page_fault_wqe.packer(
    "bytes_committed", "wqe_index", "packet_length", "token", "pftype_wq"
)
_RDMA: Final = eqe_page_fault_rdma.packer(
    "bytes_committed", "r_key", "packet_length", "rdma_op_len", "rdma_va", "pftype_token"
)
_MEMORY: Final = eqe_page_fault_memory.packer(
    "flags", "token47_32", "token31_0", "demand_fault_pages", "mkey", "va"
)
_LAST: Final = 1 << 7
_MAX_PACKET: Final = 0xFFFF


class Side(Enum):
    """The half of a queue pair that waits."""

    REQUESTER = "requester"
    RESPONDER = "responder"


class PageFaultType(IntEnum):
    """page_fault_type: bit 0 requester, bit 1 write, bit 2 RDMA.

    The first four concern a WQE, and the event names its queue (device.h: MLX5_WQE_PF_TYPE_*). The
    others concern an incoming RDMA operation.
    """

    SHARED_RECEIVE = 0
    SEND_OR_WRITE = 1
    RECEIVE = 2
    READ_OR_ATOMIC = 3
    RDMA_READ = 4
    RDMA_WRITE = 6


class Page(NamedTuple):
    """The absent page of an AccessError, without the error, which may hold views."""

    key: int
    va: int
    length: int

    def __str__(self) -> str:
        return f"key {self.key:#x}, {self.va:#x}+{self.length:#x}"


class FaultedAccess(NamedTuple):
    """The operation that hit an absent page."""

    kind: PageFaultType
    packet_length: int
    """Bytes of the affected packet, at a responder."""
    number: int = 0
    """For a WQE: number of the queue pair or shared receive queue, and index of the WQE."""
    wqe_index: int = 0
    r_key: int = 0
    """For an RDMA operation: key, address and length of the whole operation."""
    va: int = 0
    length: int = 0
    committed: int = 0
    """Bytes of the WQE or operation that are transferred and will not be repeated.

    The driver makes the pages after them present (hw/odp.c: pagefault_data_segments).
    """

    def __str__(self) -> str:
        if self.kind in (PageFaultType.RDMA_READ, PageFaultType.RDMA_WRITE):
            what = f"r_key {self.r_key:#x}, {self.va:#x}+{self.length:#x}"
        else:
            what = f"WQE {self.wqe_index:#x} of {self.number:#x}"
        return f"{self.kind.name} {what} from byte {self.committed}"


class PageFault(Outcome):
    """A page fault: one side of a queue pair waits for its driver.

    A step returns it as its outcome when the responder waits: the caller waits, too.
    """

    __slots__ = (
        "access", "is_memory", "is_open", "page", "peer", "qp", "raised_ns", "refuse", "retry",
        "side", "table", "token",
    )  # fmt: skip

    def __init__(
        self,
        qp: Qp,
        side: Side,
        access: FaultedAccess,
        page: Page,
        refuse: Callable[[str], Outcome | None],
    ) -> None:
        self.qp = qp
        self.side = side
        self.access = access
        self.page = page
        self.refuse = refuse
        """Fails the operation with a reason, and returns the response for its requester, if any."""
        self.retry: Callable[[Outcome | None], None] | None = None
        """Called at the end of the wait: with that response, or with None for "try again"."""
        self.table: PageFaultTable | None = None
        """The table in which the page fault is open."""
        self.peer: Qp | None = None
        """The queue pair of ``retry``, if it is the peer of the waiting one."""
        self.is_memory = False
        self.is_open = False
        self.token = 0
        self.raised_ns = 0

    def __repr__(self) -> str:
        return f"page fault {self.token:#x} of {self.qp!r} ({self.side.value})"

    def refusal_text(self, took_ns: int) -> str:
        """Return the text of a refusal: elapsed time, request, absent page. Refuses nothing itself.

        In the transport scheme the driver checks the whole request, while the device stopped at the
        absent page. The time distinguishes a driver without memory from one that retried until its
        timeout (HMM_RANGE_DEFAULT_TIMEOUT, a second).
        """
        after = f"page fault {self.token:#x} refused after {took_ns / 1e6:.1f} ms"
        return f"{after}: {self.access}; absent: {self.page}"

    def wait(self, retry: Callable[[Outcome | None], None], peer: Qp | None = None) -> None:
        """Call ``retry`` at the end of the wait; a later call replaces it.

        ``peer`` is the requester in this process, perhaps of another function. Its requests are
        blocked meanwhile.
        """
        self.retry, self.peer = retry, peer
        if peer is not None:
            peer.held_by = self

    def release(self, peer: Qp) -> None:
        """Unblock a requester that stops; its ``retry`` is not called."""
        peer.held_by = None
        if self.peer is peer:
            self.peer = self.retry = None

    def end(self, why: str = "") -> None:
        """End the wait: unblock the requester and retry the operation.

        With ``why`` the operation fails first, and ``retry`` gets the response.
        """
        response = self.refuse(why) if why else None
        peer, retry = self.peer, self.retry
        self.peer = self.retry = None
        if peer is not None:
            peer.held_by = None
        if retry is not None:
            retry(response)

    def event(self, token: int | None = None) -> tuple[PageFaultSubtype, bytes]:
        """Return sub-type and data of the PAGE_FAULT event: MEMORY, RDMA or WQE.

        The token is the fault's own, or ``token`` cut to its bits.
        """
        access, page = self.access, self.page
        if token is None:
            token = self.token
        else:
            token &= _MEMORY_TOKEN if self.is_memory else _TRANSPORT_TOKEN
        packet = min(access.packet_length, _MAX_PACKET)
        if self.is_memory:
            start = page.va & -PAGE_BYTES
            pages = -(-(page.va + page.length - start) // PAGE_BYTES)
            return PageFaultSubtype.MEMORY, _MEMORY.pack(
                _LAST, token >> 32, token & 0xFFFFFFFF, pages * PAGE_BYTES,
                page.key, start,
            )  # fmt: skip
        if access.kind in (PageFaultType.RDMA_READ, PageFaultType.RDMA_WRITE):
            return PageFaultSubtype.RDMA, _RDMA.pack(
                access.committed, access.r_key, packet, access.length, access.va,
                _typed(access.kind, token),
            )  # fmt: skip
        return PageFaultSubtype.WQE, _WQE.pack(
            access.committed, access.wqe_index, packet, token, _typed(access.kind, access.number)
        )

    def is_named_by(self, kind: int, number: int) -> bool:
        """Return whether PAGE_FAULT_RESUME with this type and number means this page fault.

        The number is the queue's, or for an RDMA operation the token again (hw/odp.c).
        """
        access = self.access
        if access.kind in (PageFaultType.RDMA_READ, PageFaultType.RDMA_WRITE):
            return kind == access.kind and number == self.token
        return kind == access.kind and number == access.number


def _typed(kind: PageFaultType, number: int) -> bytes:
    """Return pftype_wq or pftype_token: the kind, followed by a 24-bit number."""
    return (kind << 24 | number).to_bytes(4, "big")


class PageFaultTable:
    """Open page faults by token, and the tokens of lapsed ones, whose queue pair has stopped."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: dict[int, PageFault] = {}
        self._lapsed: dict[int, None] = {}
        self._last = 0
        self.raised = 0
        """Number of page faults so far."""
        self.unreported: OrderedDict[int, PageFault] = OrderedDict()
        """Open page faults whose event did not fit into the event queue, the oldest first."""
        self.timer: Timer | None = None
        """Fires when the event queue is to be checked again."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self) -> list[PageFault]:
        """Return all open page faults."""
        return list(self._open.values())

    def add(self, fault: PageFault) -> None:
        """Open a page fault under a token that no open or lapsed one has; count it in ``raised``.

        The queue pair has it from now on. The ledger is charged without a check. The event is
        posted by the caller.
        """
        mask = _MEMORY_TOKEN if fault.is_memory else _TRANSPORT_TOKEN
        token = self._last
        while True:
            token = token + 1 & mask
            if token and token not in self._open and token not in self._lapsed:
                break
        self._last = fault.token = token
        fault.is_open, fault.table = True, self
        self._open[token] = fault.qp.page_faults[fault.side] = fault
        self.raised += 1
        # Each side of a queue pair has at most one, so this code needs no limit.
        self._ledger.hold(_ACCOUNT, PAGE_FAULT_BYTES)

    def find(self, token: int) -> PageFault | None:
        """Return the open page fault with this token, or None."""
        return self._open.get(token)

    def close(self, fault: PageFault) -> None:
        """Close a page fault: the queue pair, its token, charge and unreported event are dropped.

        Neither the operation nor the driver is notified.
        """
        fault.is_open, fault.table = False, None
        del self._open[fault.token], fault.qp.page_faults[fault.side]
        self._ledger.hold(_ACCOUNT, -PAGE_FAULT_BYTES)
        self.unreported.pop(fault.token, None)

    def lapse(self, fault: PageFault) -> None:
        """Close a page fault as its queue pair stops; ``forget_lapsed`` accepts a later resume.

        The newest MAX_LAPSED_FAULTS tokens are remembered.
        """
        self.close(fault)
        self._lapsed[fault.token] = None
        if len(self._lapsed) > MAX_LAPSED_FAULTS:
            del self._lapsed[next(iter(self._lapsed))]

    def renewed(self) -> PageFaultTable:
        """Return an empty table for a stopped function; tokens and ``raised`` continue.

        Lapsed tokens are not taken over.
        """
        table = PageFaultTable(self._ledger)
        table._last, table.raised = self._last, self.raised
        return table

    def forget_lapsed(self, token: int) -> bool:
        """Forget a lapsed page fault that the driver resumes.

        Return whether the token was of one.
        """
        if token not in self._lapsed:
            return False
        del self._lapsed[token]
        return True
