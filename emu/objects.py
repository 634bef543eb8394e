"""The device's objects: what each create command leaves behind.

An object keeps the context it was made from (a view over its own copy of the bytes), so a query
answers with it, and beside it the few values that the engine needs at every access.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from emu.engine.pages import PageList
from emu.resources import Object


class Pd(Object):
    """A protection domain."""

    __slots__ = ()
    kind = "pd"


class Xrcd(Object):
    """An XRC domain."""

    __slots__ = ()
    kind = "xrcd"


class TransportDomain(Object):
    """A transport domain: only Ethernet queues use it."""

    __slots__ = ()
    kind = "transport domain"


class Uar(Object):
    """A user access region: one doorbell page of BAR 0, whose index is its handle."""

    __slots__ = ()
    kind = "uar"


class QCounter(Object):
    """A counter set that queue pairs add to; the counters' names are query_q_counter_out's."""

    __slots__ = ("values",)
    kind = "counter set"

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, int] = {}


class Psv(Object):
    """A protection signature value."""

    __slots__ = ("pd",)
    kind = "psv"

    def __init__(self, pd: Pd) -> None:
        super().__init__()
        self.pd = pd

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)


class Mkey(Object):
    """A memory key. The handle is the mkey index; the key is the index and the variant byte."""

    __slots__ = ("ctx", "pd", "xlt")
    kind = "mkey"

    def __init__(self, ctx: Any, pd: Pd, xlt: bytes) -> None:
        super().__init__()
        self.ctx = ctx
        self.pd = pd
        self.xlt = xlt
        """Translation entries as the driver gave them: 8 bytes (MTT) or 16 (KLM, KSM) each."""

    @property
    def key(self) -> int:
        """The 32-bit lkey and rkey."""
        return self.handle << 8 | int(self.ctx.mkey_7_0)

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)


class Eq(Object):
    """An event queue; ``emu.engine.eq`` writes it."""

    __slots__ = ("armed", "buffer", "ci", "ctx", "events", "log_size", "overruns", "pi", "vector")
    kind = "eq"

    def __init__(self, ctx: Any, events: int, buffer: PageList) -> None:
        super().__init__()
        self.ctx = ctx
        self.events = events
        self.buffer = buffer
        self.log_size = int(ctx.log_eq_size)
        self.vector = int(ctx.intr)
        self.armed = False
        self.pi = 0
        self.ci = 0
        self.overruns = 0


class Cq(Object):
    """A completion queue."""

    __slots__ = ("buffer", "ctx", "eq", "uar")
    kind = "cq"

    def __init__(self, ctx: Any, eq: Eq, uar: Uar, buffer: PageList) -> None:
        super().__init__()
        self.ctx = ctx
        self.eq = eq
        self.uar = uar
        self.buffer = buffer

    def holds(self) -> tuple[Object, ...]:
        return (self.eq, self.uar)


class SrqForm(Enum):
    """The three commands that make a shared receive queue."""

    RMP = "rmp"
    XRC_SRQ = "xrc_srq"
    SRQ = "srq"


@dataclass(frozen=True, slots=True)
class RqGeometry:
    """Where the WQEs of a receive queue lie, whichever context described it."""

    log_size: int
    """Number of WQEs, as exponent."""
    log_stride: int
    """Bytes of one WQE, as exponent."""
    log_page_size: int
    page_offset: int
    dbr_addr: int


class Srq(Object):
    """A shared receive queue of one of the three forms."""

    __slots__ = ("buffer", "ctx", "form", "geometry", "held", "lwm")
    kind = "srq"

    def __init__(
        self,
        form: SrqForm,
        ctx: Any,
        held: tuple[Object, ...],
        geometry: RqGeometry,
        buffer: PageList,
    ) -> None:
        super().__init__()
        self.form = form
        self.ctx = ctx
        self.held = held
        self.geometry = geometry
        self.buffer = buffer
        self.lwm = 0
        """Limit water mark; 0 is disarmed."""

    def holds(self) -> tuple[Object, ...]:
        return self.held


class Qp(Object):
    """A queue pair."""

    __slots__ = ("buffer", "ctx", "held", "mcgs")
    kind = "qp"

    def __init__(self, ctx: Any, held: tuple[Object, ...], buffer: PageList) -> None:
        super().__init__()
        self.ctx = ctx
        self.held = held
        self.buffer = buffer
        self.mcgs: set[bytes] = set()
        """Multicast GIDs that it is attached to."""

    def holds(self) -> tuple[Object, ...]:
        return self.held
