"""The device's objects: what each create command leaves behind.

An object keeps the context it was made from (a view over its own copy of the bytes), so a query
answers with it, and beside it the few values that the engine needs at every access.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from emu.engine.pages import PageList
from emu.ports import Timer
from emu.resources import Object
from layouts.enums import AccessMode, CqNotification, CqStatus, QpState, QpType

if TYPE_CHECKING:
    from emu.engine.link import Link
    from emu.engine.rq import RecvRing, SharedRecvList
    from emu.engine.sq import SendRing


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
    """A user access region: one doorbell page of BAR 0, whose index is its handle.

    Queues do not hold on to theirs: when a process dies, mlx5_ib gives its pages back before it
    destroys its queues. A doorbell in a page that is gone is ignored.
    """

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
    """A memory key. The handle is the mkey index; the key is the index and the variant byte.

    ``ctx`` is the context; the other attributes are what every access needs of it, taken over by
    ``decode`` after each change.
    """

    __slots__ = (
        "_entries", "ctx", "en_rinval", "end", "free", "log_page_size", "mode", "pd", "pg_access",
        "qpn", "rights", "start", "umr_en", "variant", "views", "xlt", "xlt_room",
    )  # fmt: skip
    kind = "mkey"

    def __init__(self, ctx: Any, pd: Pd, xlt: bytearray, *, pg_access: bool = False) -> None:
        super().__init__()
        self.ctx = ctx
        self.pd = pd
        self.xlt = xlt
        """Translation entries as the driver gave them: 8 bytes (MTT) or 16 (KLM, KSM) each."""
        self.pg_access = pg_access
        """Whether the low bits of MTT entries are rights (bit 0 read, bit 1 write)."""
        self._entries: array[int] | None = None
        self.views: dict[tuple[int, int, int], tuple[int, Sequence[memoryview]]] = {}
        """Translated before: (va, length, rights) to the memory's generation and the bytes."""
        self.decode()

    def decode(self) -> None:
        """The context has changed: take its values over and forget what was derived from it."""
        ctx = self.ctx
        self.free = bool(ctx.free)
        self.variant = int(ctx.mkey_7_0)
        self.mode = AccessMode(ctx.access_mode_4_2 << 2 | ctx.access_mode_1_0)
        self.rights = ctx.lr | ctx.lw << 1 | ctx.rr << 2 | ctx.rw << 3 | ctx.a << 4
        self.qpn = int(ctx.qpn)
        self.en_rinval = bool(ctx.en_rinval)
        self.log_page_size = int(ctx.log_page_size)
        self.start = int(ctx.start_addr)
        self.end = 1 << 64 if ctx.length64 else self.start + ctx.len
        self.umr_en = bool(ctx.umr_en)
        self.xlt_room = ctx.translations_octword_size * 16
        self.views.clear()

    def write_translations(self, at: int, xlt: bytes) -> None:
        """Replace entries from byte ``at`` on; what was derived from them follows.

        Entries that arrive by UMR carry their rights, whatever those of the create command did.
        """
        if self.mode is AccessMode.MTT and not self.pg_access:
            self.xlt[:] = self.entries_as_given()
            self.pg_access = True
            self._entries = None
        if at > len(self.xlt):
            self.xlt += bytes(at - len(self.xlt))
        self.xlt[at : at + len(xlt)] = xlt
        self.views.clear()
        if self._entries is not None:
            self._entries[at // 8 : (at + len(xlt)) // 8] = mtt_entries(xlt, pg_access=True)

    def entries_as_given(self) -> bytes:
        """The page entries in the driver's byte order, with the rights that they have here."""
        entries = self.entries[:]
        entries.byteswap()
        return entries.tobytes()

    @property
    def entries(self) -> array[int]:
        """The entries of an MTT key as numbers; without ``pg_access`` all rights are set."""
        if self._entries is None:
            self._entries = mtt_entries(self.xlt, pg_access=self.pg_access)
        return self._entries

    @property
    def key(self) -> int:
        """The 32-bit lkey and rkey."""
        return self.handle << 8 | self.variant

    def bound_to(self, qpn: int) -> bool:
        """Whether this queue pair may use the key (a type 2 window belongs to one)."""
        return self.qpn in (ANY_QPN, qpn)

    def invalidate(self) -> None:
        """The key is free from now on: no access until it is registered again."""
        self.ctx.free = 1
        self.decode()

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)


ANY_QPN = 0xFFFFFF
"""The qpn of a key that any queue pair of its domain may use."""

MTT_READ, MTT_WRITE = 1, 2
"""Rights in the low bits of an MTT entry; neither means "not present"."""


def mtt_entries(xlt: bytes | bytearray, *, pg_access: bool) -> array[int]:
    """Page entries as numbers; without ``pg_access`` all of them allow everything."""
    entries = array("Q", bytes(xlt))
    entries.byteswap()
    if not pg_access:
        for index, entry in enumerate(entries):
            entries[index] = entry | MTT_READ | MTT_WRITE
    return entries


class Eq(Object):
    """An event queue; ``emu.engine.eq`` writes it."""

    __slots__ = (
        "armed", "buffer", "ci", "ctx", "events", "log_size", "overruns", "pi", "vector"
    )  # fmt: skip
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
    """A completion queue; ``emu.engine.cq`` writes it."""

    __slots__ = (
        "buffer", "ci", "ctx", "dbr_addr", "entries", "eq", "ignores_overrun", "log_size",
        "moderation", "notification", "pi", "solicited_pi", "status", "stride",
    )  # fmt: skip
    kind = "cq"

    def __init__(self, ctx: Any, eq: Eq, buffer: PageList, stride: int) -> None:
        super().__init__()
        self.ctx = ctx
        self.eq = eq
        self.stride = stride
        """Bytes from one entry to the next; the 64 bytes of a CQE are the last of them."""
        self.dbr_addr = int(ctx.dbr_addr)
        self.ignores_overrun = bool(ctx.oi)
        self.moderation: Moderation | None = None
        self.status = CqStatus.OK
        self.notification = CqNotification.FIRED
        self.pi = 0
        self.ci = 0
        """As far as the driver is known to have read; behind the truth while there is room."""
        self.solicited_pi = 0
        """Producer index after the newest solicited completion."""
        self.move(buffer, int(ctx.log_cq_size))

    def move(self, buffer: PageList, log_size: int) -> None:
        """The next entry goes into this buffer."""
        self.buffer = buffer
        self.log_size = log_size
        self.entries = 1 << log_size

    def stop_waiting(self) -> None:
        """Forget an event that moderation holds back."""
        if self.moderation is not None:
            self.moderation.restart()

    def encode(self) -> None:
        """Write what the engine has changed back into the context, for a query."""
        ctx = self.ctx
        ctx.status, ctx.st = self.status, self.notification
        ctx.producer_counter, ctx.consumer_counter = self.pi & 0xFFFFFF, self.ci & 0xFFFFFF

    def holds(self) -> tuple[Object, ...]:
        return (self.eq,)


@dataclass(slots=True)
class Moderation:
    """Events held back until ``max_count`` entries or ``period_ns`` have come together."""

    max_count: int
    period_ns: int
    entries: int = 0
    """Entries since the last event."""
    timer: Timer | None = None
    """Runs from the first of them on."""

    def restart(self) -> None:
        """An event has gone out, or none will."""
        self.entries = 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


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

    __slots__ = ("cq", "ctx", "form", "is_in_error", "lwm", "pd", "queue", "xrcd")
    kind = "srq"

    def __init__(
        self,
        form: SrqForm,
        ctx: Any,
        queue: SharedRecvList,
        pd: Pd,
        xrcd: Xrcd | None = None,
        cq: Cq | None = None,
    ) -> None:
        super().__init__()
        self.form = form
        self.ctx = ctx
        self.queue = queue
        self.pd = pd
        self.xrcd = xrcd
        self.cq = cq
        self.lwm = 0
        """Limit water mark; 0 is disarmed."""
        self.is_in_error = False
        """Its driver has been told that it can give no requests."""

    def holds(self) -> tuple[Object, ...]:
        return tuple(held for held in (self.pd, self.xrcd, self.cq) if held is not None)


class Qp(Object):
    """A queue pair.

    ``ctx`` is the context as the commands have set it; ``decode`` takes over what the engine needs
    of it at every message. State, PSNs and retry counts live here and are written back into the
    context when it is queried.
    """

    __slots__ = (
        "ack_timeout", "buffer", "counter", "ctx", "epsn", "is_ready", "link", "log_msg_max",
        "max_datagram", "mcgs", "min_rnr_nak", "mtu_bytes", "parts", "pd", "pkey_index", "psn",
        "q_key", "rae", "rcq", "remote_qpn", "retries", "retry_count", "rlid", "rnr_retries",
        "rnr_retry", "rq", "rre", "rwe", "scq", "sq", "srq", "st", "state", "timer", "xrcd",
    )  # fmt: skip
    kind = "qp"

    def __init__(
        self,
        ctx: Any,
        parts: QpParts,
        buffer: PageList,
        sq: SendRing | None,
        rq: RecvRing | None,
    ) -> None:
        super().__init__()
        self.ctx = ctx
        self.buffer = buffer
        self.parts = parts
        self.st = QpType(ctx.st)
        self.pd = parts.pd
        self.scq = parts.scq
        self.rcq = parts.rcq
        self.srq = parts.srq
        self.xrcd = parts.xrcd
        self.counter = parts.counter
        self.sq = sq
        self.rq = rq
        self.mcgs: set[bytes] = set()
        """Multicast GIDs that it is attached to."""
        self.is_ready = False
        """Whether it stands in the device's ready list."""
        self.timer: Timer | None = None
        """What it waits for: a retry, or the next look at its receive queue."""
        self.retries = self.rnr_retries = 0
        self.link: Link | None = None
        """What only packets need; None while the peer is in this process."""
        self.state = QpState.RST
        self.decode()

    def decode(self) -> None:
        """A transition has changed the context."""
        ctx = self.ctx
        path = ctx.primary_address_path
        self.rre, self.rwe, self.rae = ctx.rre, ctx.rwe, ctx.rae
        self.psn, self.epsn = int(ctx.next_send_psn), int(ctx.next_rcv_psn)
        self.remote_qpn, self.rlid = int(ctx.remote_qpn), int(path.rlid)
        self.pkey_index, self.q_key = int(path.pkey_index), int(ctx.q_key)
        self.mtu_bytes = _MTU_BYTES.get(ctx.mtu, _SMALLEST_MTU)
        self.log_msg_max = int(ctx.log_msg_max)
        self.max_datagram = self.mtu_bytes
        self.ack_timeout, self.retry_count = int(path.ack_timeout), int(ctx.retry_count)
        self.rnr_retry, self.min_rnr_nak = int(ctx.rnr_retry), int(ctx.min_rnr_nak)
        if self.link is not None:
            self.link.reload()

    def encode(self) -> None:
        """Write what the engine has changed back into the context, for a query."""
        self.ctx.state = self.state
        self.ctx.next_send_psn, self.ctx.next_rcv_psn = self.psn, self.epsn

    def stop_waiting(self) -> None:
        """Forget the timer and the retries that led to it."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.link is not None:
            self.link.pause()
        self.retries = self.rnr_retries = 0

    def restart(self) -> None:
        """State RST: the driver starts counting at 0 again."""
        self.link = None
        if self.sq is not None:
            self.sq.restart()
        if self.rq is not None:
            self.rq.restart()

    def count(self, name: str) -> None:
        """Add one to a counter of the queue pair's set."""
        if self.counter is not None:
            self.counter.values[name] = self.counter.values.get(name, 0) + 1

    def holds(self) -> tuple[Object, ...]:
        return self.parts.all()


@dataclass(frozen=True, slots=True)
class QpParts:
    """What a queue pair refers to."""

    pd: Pd | None = None
    scq: Cq | None = None
    rcq: Cq | None = None
    srq: Srq | None = None
    xrcd: Xrcd | None = None
    counter: QCounter | None = None

    def all(self) -> tuple[Object, ...]:
        """Those that are there."""
        held = (self.pd, self.scq, self.rcq, self.srq, self.xrcd, self.counter)
        return tuple(part for part in held if part is not None)


_MTU_BYTES = {code: 128 << code for code in range(1, 6)}
"""IBTA MTU codes: 1 is 256 bytes, 5 is 4096."""

_SMALLEST_MTU = 256
