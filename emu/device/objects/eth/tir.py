"""Transport interfaces for receiving, and the tables of receive queues behind them (TIR, RQT).

Source: PRM "Transport interface receive", "Receive queue table".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from emu.device.objects.domains import LoopbackSource, TransportDomain
from emu.device.objects.eth.rq import Rq
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import MAX_CHILDREN, Object
from layouts.enums.tir import PacketMerge, RxHashFn, SelfLbBlock

if TYPE_CHECKING:
    from layouts.objects.rqt import rqtc
    from layouts.objects.tir import tirc


class FlowHash(Protocol):
    """The hash function of a TIR (``emu.device.port.eth.toeplitz.Hasher``)."""

    def __call__(self, headers: Any) -> tuple[int, int]:
        """Return a packet's rss_hash_result and rss_hash_type from its parsed headers."""


class Merging(NamedTuple):
    """The packets that a TIR allows to be merged (LRO)."""

    versions: tuple[int, ...]
    """IP versions."""
    most_ip_payload: int
    """Maximum bytes behind the IP header of the merged packet."""
    timeout_ns: int
    """Nanoseconds that packets are held for merging; 0: not at all."""


_LOG_IP_PAYLOAD_UNIT: Final = 8
"""Unit of lro_max_ip_payload_size (core/en/params.c: 64 KiB less 256, >> 8)."""


def _merging(ctx: tirc) -> Merging | None:
    """Return the merging rules of a TIR (LRO); None if its packets must not be merged."""
    if not ctx.packet_merge_mask:
        return None
    pairs = ((PacketMerge.IPV4_LRO, 4), (PacketMerge.IPV6_LRO, 6))
    versions = tuple(version for bit, version in pairs if ctx.packet_merge_mask & bit)
    max_ip_payload = ctx.lro_max_ip_payload_size << _LOG_IP_PAYLOAD_UNIT
    return Merging(versions, max_ip_payload, ctx.lro_timeout_period_usecs * 1000)


class Rqt(Object):
    """The receive queues of an indirect TIR; a queue may appear several times.

    The table has rqt_actual_size entries; rqt_max_size only bounds later MODIFY_RQT commands.
    """

    __slots__ = ("ctx", "rqs")
    kind = "rqt"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_rqt)
    BASE_BYTES = 1024
    ENTRY_BYTES: ClassVar[int] = 8

    def __init__(self, ctx: rqtc, rqs: tuple[Rq, ...]) -> None:
        super().__init__()
        self.ctx = ctx
        """The rqtc without its list."""
        self.rqs = rqs

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.ENTRY_BYTES * len(self.rqs)

    def about(self) -> dict[str, object]:
        """Return current and maximum size, and the first MAX_CHILDREN receive queues."""
        return {
            "size": len(self.rqs), "max_size": self.ctx.rqt_max_size,
            "rqs": [rq.handle for rq in self.rqs[:MAX_CHILDREN]],
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return self.rqs


class Tir(Object):
    """A destination of received packets: one receive queue, or one of a table's by hash."""

    __slots__ = (
        "ctx", "describes_inner", "hasher", "known_senders", "merging", "self_lb_block", "target",
        "td",
    )  # fmt: skip
    kind = "tir"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_tir)
    BASE_BYTES = 1024
    HASHER_BYTES: ClassVar[int] = 800 << 10
    """Bytes of a Toeplitz key's tables and of the cached flow hashes."""

    def __init__(
        self,
        ctx: tirc,
        td: TransportDomain | None,
        target: Rq | Rqt,
        hasher: FlowHash | None = None,
    ) -> None:
        """Create a TIR; an indirect TIR, whose target is an RQT, may have a hasher.

        Without a transport domain the TIR takes the packets of all domains.
        """
        super().__init__()
        self.td = td
        self.target = target
        self.known_senders = 0
        """Number of send queues of the domain whose frames the TIR recognizes as its own."""
        self.change(ctx, hasher)
        self.refresh()

    def change(self, ctx: tirc, hasher: FlowHash | None) -> None:
        """Replace context and hash function; target, transport domain and known senders stay."""
        self.ctx = ctx
        self.hasher = hasher
        self.merging = _merging(ctx)
        self.self_lb_block = int(ctx.self_lb_block)
        """Frames of its function that it takes, by :class:`SelfLbBlock`."""
        self.describes_inner = bool(ctx.tunneled_offload_en)
        """Whether completions describe the inner packets of tunnels."""

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + (self.HASHER_BYTES if self.hasher is not None else 0)

    def refresh(self) -> None:
        """Recognize the send queues that the transport domain has now as the function's own.

        Frames of later send queues count as foreign until the driver refreshes the TIR. mlx5e
        refreshes its TIRs each time it has opened channels (core/en_common.c: mlx5e_refresh_tirs).
        """
        self.known_senders = self.td.senders if self.td is not None else 0

    def takes(self, source: LoopbackSource, *, is_multicast: bool) -> bool:
        """Return whether the TIR takes a looped-back frame of one of its function's send queues.

        True for queues of other transport domains, and for those not recognized yet (``refresh``).
        For recognized ones the bit of self_lb_block for unicast or multicast must be set: the bit
        allows.
        """
        if source.td is not self.td or source.order > self.known_senders:
            return True
        allowed = SelfLbBlock.BLOCK_MULTICAST if is_multicast else SelfLbBlock.BLOCK_UNICAST
        return bool(self.self_lb_block & allowed)

    def queue_of(self, headers: Any) -> tuple[Rq, int, int]:
        """Return the receive queue of a packet, its rss_hash_result and rss_hash_type.

        Hash and type are 0 for a direct TIR and without a hasher. The table must not be empty.
        """
        target = self.target
        if isinstance(target, Rq):
            return target, 0, 0
        value, kind = self.hasher(headers) if self.hasher is not None else (0, 0)
        rqs = target.rqs
        return rqs[value % len(rqs)], value, kind

    def about(self) -> dict[str, object]:
        """Return transport domain, target (``rqn`` or ``rqtn``), hash and self_lb_block."""
        return {
            "td": self.td.handle if self.td else None,
            "rqn": self.target.handle if isinstance(self.target, Rq) else None,
            "rqtn": self.target.handle if isinstance(self.target, Rqt) else None,
            "hash": RxHashFn(self.ctx.rx_hash_fn).name if self.hasher else None,
            "self_lb": self.self_lb_block,
        }  # fmt: skip

    def holds(self) -> tuple[Object, ...]:
        return (self.target,) if self.td is None else (self.td, self.target)
