"""Ethernet send queues, used as by mlx5e and a raw packet queue pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.device.objects.eth.sq import Sq
from emu.driver.ethernet.rings import sq_fields
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import SIGNALED, Sge, inline
from layouts.enums.cmd import Op
from layouts.enums.wq import SqState
from layouts.enums.wqe import Opcode
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START, INSERT_SVLAN, INSERT_VLAN
from layouts.rings.wqe import CTRL, DATA, DS, WQEBB

if TYPE_CHECKING:
    from layouts.objects.sq import sqc


class SendQueue:
    """SQ with a CQ of its own, unless the caller passes one."""

    def __init__(
        self, node: Endpoint, *, cq: CompletionQueue | None = None, log_size: int = 6,
        ready: bool = True, **context: Any,
    ) -> None:  # fmt: skip
        """Create the queue, in RDY if ``ready``; for the rest see :func:`sq_fields`."""
        self.node, self.log_size = node, log_size
        self.cq = cq or CompletionQueue(node)
        fields, self.ring = sq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, **context
        )
        self.sqn: int = node.driver.must(Op.CREATE_SQ, **fields).sqn
        self.state = SqState.RST
        self.sent = 0
        if ready:
            self.modify(SqState.RDY)

    @property
    def object(self) -> Sq:
        """Device's side of the queue."""
        sq = self.node.hca.sqs.need(self.sqn)
        assert isinstance(sq, Sq)
        return sq

    def modify(self, state: SqState, **fields: Any) -> None:
        """Move the queue to a state; back in RST both sides count from 0.

        The doorbell record is unchanged. ``fields`` are of the command. Raises DriverCommandError
        if refused.
        """
        self.node.driver.must(
            Op.MODIFY_SQ, sqn=self.sqn, sq_state=self.state, ctx={"state": state}, **fields
        )
        self.state = state
        if state is SqState.RST:
            self.sent = 0

    def query(self) -> sqc:
        """Return the current context."""
        context: sqc = self.node.driver.must(Op.QUERY_SQ, sqn=self.sqn).sq_context
        return context

    def post(
        self, opcode: int, body: bytes = b"", *, flags: int = SIGNALED, ring: bool = True,
        ds: int | None = None, sqn: int | None = None, imm: int = 0,
    ) -> int:  # fmt: skip
        """Post segments behind a control segment; return the WQE's wqe_counter.

        ``ds`` and ``sqn`` replace the correct values in the control segment; ``imm`` is its last
        word. The doorbell record is written; ``ring`` also rings the doorbell. A full ring is not
        checked.
        """
        index = self.sent & 0xFFFF
        ds = 1 + -(-len(body) // DS) if ds is None else ds
        sqn = self.sqn if sqn is None else sqn
        wqe = CTRL.pack(index << 8 | opcode, sqn << 8 | ds, flags, imm) + body
        wqe = wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")
        for number in range(len(wqe) // WQEBB):
            at = (self.sent + number & (1 << self.log_size) - 1) * WQEBB
            self.ring.write(at, wqe[number * WQEBB :][:WQEBB])
        self.sent += len(wqe) // WQEBB
        self.write_record()
        if ring:
            self.ring_doorbell()
        return index

    def send(
        self, *sges: Sge | bytes, opcode: Opcode = Opcode.SEND, ring: bool = True,
        flags: int = SIGNALED, **segment: Any,
    ) -> int:  # fmt: skip
        """Post a frame: data segments (byte_count, lkey, address), or inline bytes.

        ``segment`` are arguments of :func:`eth_segment`. Return the WQE's wqe_counter. ``ring``
        also rings the doorbell.
        """
        data = [inline(sge) if isinstance(sge, bytes) else DATA.pack(*sge) for sge in sges]
        body = eth_segment(**segment) + b"".join(data)
        return self.post(opcode, body, flags=flags, ring=ring)

    def nop(self, **options: Any) -> int:
        """Post a WQE without effect (core/en/txrx.h: mlx5e_post_nop)."""
        return self.post(Opcode.NOP, **options)

    def write_record(self) -> None:
        """Write the producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record + 4, (self.sent & 0xFFFF).to_bytes(4, "big"))

    def ring_doorbell(self) -> None:
        """Ring the doorbell; the work is done when the node runs."""
        data = bytes(4) + (self.sqn << 8).to_bytes(4, "big")
        driver = self.node.driver
        driver.bar.write(driver.uar * driver.uar_bytes + 0x800, data)


def eth_segment(
    *, cs_flags: int = 0, mss: int = 0, headers: bytes = b"", vlan: int | None = None,
    svlan: bool = False, metadata: int = 0,
) -> bytes:  # fmt: skip
    """Return the Ethernet segment, with inline headers behind it or a tag to insert.

    ``mss`` in bytes makes a large send. ``vlan`` is the tag's TCI, of 802.1ad with ``svlan``.
    ``metadata`` accompanies the frame to the tables that send it. ``vlan`` excludes ``headers``,
    which are then left out.
    """
    if vlan is not None:
        trailer = INSERT_VLAN | (INSERT_SVLAN if svlan else 0) | vlan
        return ETH.pack(cs_flags, mss, metadata, trailer)
    whole = ETH.pack(cs_flags, mss, metadata, len(headers) << 16)
    segment = whole[:INLINE_HDR_START] + headers
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")
