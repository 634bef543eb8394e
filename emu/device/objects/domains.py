"""Objects that other objects belong to or refer to: domains, UARs, counters, user contexts."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

PAGE_BYTES: Final = 4096

FIRST_UAR: Final = 8
"""Pages 0 to 2 hold the initialization segment, 2 and 3 the MSI-X table and its pending bits."""


class Pd(Object):
    """A protection domain."""

    __slots__ = ()
    kind = "pd"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_pd)


class Xrcd(Object):
    """An XRC domain."""

    __slots__ = ()
    kind = "xrcd"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_xrcd)


class TransportDomain(Object):
    """A transport domain; only Ethernet queues use it."""

    __slots__ = ("senders",)
    kind = "transport domain"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_transport_domain)

    def __init__(self) -> None:
        super().__init__()
        self.senders = 0
        """Number of send queues that the domain has had so far."""

    def add_sender(self) -> LoopbackSource:
        """Count a new send queue; return the identity by which TIRs recognize its frames."""
        self.senders += 1
        return LoopbackSource(self, self.senders)


class LoopbackSource(NamedTuple):
    """A send queue whose frames may be looped back to its function."""

    td: TransportDomain
    order: int
    """Position among the send queues of the domain, from 1 on."""


class Uar(Object):
    """User access region: one doorbell page of BAR 0, as large as a page of the guest.

    The handle is the number of its first UAR (:class:`emu.device.objects.uar_pages.UarPages`).

    Queues hold no reference to their UAR: when a process dies, mlx5_ib frees its UARs before it
    destroys its queues. The device ignores a doorbell in a page that is no longer allocated.
    """

    __slots__ = ("cq_arm", "gets_copies")
    kind = "uar"
    numbering = Numbering(
        lambda made: made.doorbell_end >> made.uar_pages.log_bytes,
        first=FIRST_UAR,
        step=lambda made: made.uar_pages.per_page,
    )

    def __init__(self) -> None:
        super().__init__()
        self.cq_arm = 0
        """The first half of a CQ doorbell that the guest writes in two halves."""
        self.gets_copies = True
        """Whether the guest may copy WQEs behind the send doorbells (BlueFlame); True until known.
        """


class QCounter(Object):
    """A counter set that queue pairs add to; counter names are those of query_q_counter_out."""

    __slots__ = ("values",)
    kind = "counter set"
    numbering = Numbering(lambda made: made.caps.general.max_qp_cnt + 1)
    BASE_BYTES = 4096

    def __init__(self) -> None:
        super().__init__()
        self.values: defaultdict[str, int] = defaultdict(int)


class Uctx(Object):
    """A user context: a process that sends its own commands. The handle is its uid."""

    __slots__ = ("cap",)
    kind = "user context"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_uctx)

    def __init__(self, cap: int = 0) -> None:
        """Create a context with the extra permissions ``cap``: bits of uctx_cap."""
        super().__init__()
        self.cap = cap
