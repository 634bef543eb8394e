"""Objects that other objects belong to or refer to: domains, UARs, counters, signatures."""

from __future__ import annotations

from emu.device.objects.table import Object


class Pd(Object):
    """A protection domain."""

    __slots__ = ()
    kind = "pd"


class Xrcd(Object):
    """An XRC domain."""

    __slots__ = ()
    kind = "xrcd"


class TransportDomain(Object):
    """A transport domain; only Ethernet queues use it."""

    __slots__ = ()
    kind = "transport domain"


class Uar(Object):
    """A user access region: one doorbell page of BAR 0. Its page index is its handle.

    Queues hold no reference to their UAR: when a process dies, mlx5_ib frees its UARs before it
    destroys its queues. A doorbell in a page that is no longer allocated is ignored.
    """

    __slots__ = ("cq_arm",)
    kind = "uar"

    def __init__(self) -> None:
        super().__init__()
        self.cq_arm = 0
        """The first half of a CQ's doorbell that comes in two halves."""


class ReservedQpn(Object):
    """A queue pair number that no queue pair gets; it is the handle."""

    __slots__ = ()
    kind = "reserved qpn"


class QCounter(Object):
    """A counter set that queue pairs add to; counter names are those of query_q_counter_out."""

    __slots__ = ("values",)
    kind = "counter set"
    BASE_BYTES = 4096

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, int] = {}


class FlowCounter(Object):
    """Counts packets and bytes of the flow table entries that refer to it."""

    __slots__ = ("octets", "packets")
    kind = "flow counter"

    def __init__(self) -> None:
        super().__init__()
        self.packets = self.octets = 0


class Psv(Object):
    """A protection signature value: the initial value of a signature, set by SET_PSV."""

    __slots__ = ("pd", "transient_sig")
    kind = "psv"

    def __init__(self, pd: Pd) -> None:
        super().__init__()
        self.pd = pd
        self.transient_sig = 0
        """64 bits: guard and tags, or the seed of a CRC in the upper bits."""

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)
