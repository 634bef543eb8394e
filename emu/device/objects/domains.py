"""Objects that other objects belong to or refer to: domains, UARs, counters, signatures."""

from __future__ import annotations

from typing import Any

from emu.device.objects.numbering import Limits, Numbering
from emu.device.objects.table import Object

PAGE_BYTES = 4096

FIRST_UAR = 8
"""Pages 0 to 2 are the initialization segment, 2 and 3 the MSI-X table and its pending bits."""

FIRST_QPN = 0x40
"""Numbers 0 and 1 mean the SMI and the GSI on the wire."""

LEAST_LOG_MAX_QP = 7
"""There are so many queue pairs even if the driver asks for fewer (log_max_qp of SET_HCA_CAP).

iPXE's golan.c asks for 2^0 and makes a few.
"""

QUEUE_NUMBERS = Numbering(
    lambda made: 1 << max(made.caps.general.log_max_qp, LEAST_LOG_MAX_QP), first=FIRST_QPN
)
"""Queue pairs share their numbers with everything that a send doorbell can name, and with receive
queues: a dump of a queue has nothing else to tell them apart."""


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

    __slots__ = ()
    kind = "transport domain"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_transport_domain)


class Uar(Object):
    """A user access region: one doorbell page of BAR 0. Its page index is its handle.

    Queues hold no reference to their UAR: when a process dies, mlx5_ib frees its UARs before it
    destroys its queues. A doorbell in a page that is no longer allocated is ignored.
    """

    __slots__ = ("cq_arm",)
    kind = "uar"
    numbering = Numbering(lambda made: made.doorbell_end // PAGE_BYTES, first=FIRST_UAR)

    def __init__(self) -> None:
        super().__init__()
        self.cq_arm = 0
        """The first half of a CQ's doorbell that comes in two halves."""


class ReservedQpn(Object):
    """A queue pair number that no queue pair gets; it is the handle."""

    __slots__ = ()
    kind = "reserved qpn"
    numbering = QUEUE_NUMBERS


class QCounter(Object):
    """A counter set that queue pairs add to; counter names are those of query_q_counter_out."""

    __slots__ = ("values",)
    kind = "counter set"
    numbering = Numbering(lambda made: made.caps.general.max_qp_cnt + 1)
    BASE_BYTES = 4096

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, int] = {}


def _flow_counters(made: Limits) -> int:
    general = made.caps.general
    most: int = general.max_flow_counter_31_16 << 16 | general.max_flow_counter_15_0
    return 1 + most


class FlowCounter(Object):
    """Counts packets and bytes of the flow table entries that refer to it."""

    __slots__ = ("octets", "packets")
    kind = "flow counter"
    numbering = Numbering(_flow_counters)

    def __init__(self) -> None:
        super().__init__()
        self.packets = self.octets = 0

    def about(self) -> dict[str, Any]:
        return {"packets": self.packets, "octets": self.octets}


class Psv(Object):
    """A protection signature value: the initial value of a signature, set by SET_PSV."""

    __slots__ = ("pd", "transient_sig")
    kind = "psv"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_mkey)

    def __init__(self, pd: Pd) -> None:
        super().__init__()
        self.pd = pd
        self.transient_sig = 0
        """64 bits: guard and tags, or the seed of a CRC in the upper bits."""

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)
