"""Ethernet send queues as mlx5e and a raw packet queue pair keep them."""

from __future__ import annotations

from emu.driver.ethernet.rings import PAGE, sq_fields
from layouts.enums import Op, Opcode
from layouts.eth_enums import SqState
from layouts.eth_wqe import (
    ETH,
    INLINE_HDR_START,
    INSERT_SVLAN,
    INSERT_VLAN,
)
from layouts.wqe import CTRL, DATA, DS, WQEBB

SIGNALED = 0b10 << 2


class SendQueue:
    """An SQ with a CQ of its own, unless it is given one."""

    def __init__(self, node, *, cq=None, log_size=6, ready=True, **context):
        self.node, self.log_size = node, log_size
        self.cq = cq or node.completion_queue()
        fields, self.ring = sq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, **context
        )
        self.sqn = node.driver.must(Op.CREATE_SQ, **fields).sqn
        self.state = SqState.RST
        self.sent = 0
        if ready:
            self.modify(SqState.RDY)

    @property
    def object(self):
        """The device's side."""
        return self.node.hca.sqs.need(self.sqn)

    def modify(self, state, **fields):
        """To another state; back in RST both sides count from 0, but the record stays as it is."""
        self.node.driver.must(
            Op.MODIFY_SQ, sqn=self.sqn, sq_state=self.state, ctx={"state": state}, **fields
        )
        self.state = state
        if state is SqState.RST:
            self.sent = 0

    def query(self):
        """The context of now."""
        return self.node.driver.must(Op.QUERY_SQ, sqn=self.sqn).sq_context

    def post(self, opcode, body=b"", *, flags=SIGNALED, ring=True, ds=None, sqn=None, imm=0):
        """Post segments behind a control segment; returns the request's wqe_counter."""
        index = self.sent & 0xFFFF
        ds = 1 + -(-len(body) // DS) if ds is None else ds
        sqn = self.sqn if sqn is None else sqn
        wqe = CTRL.pack(index << 8 | opcode, sqn << 8 | ds, flags, imm) + body
        wqe = wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")
        for number in range(len(wqe) // WQEBB):
            at = (self.sent + number & (1 << self.log_size) - 1) * WQEBB
            self.ring.write(at, wqe[number * WQEBB :][:WQEBB])
        self.sent += len(wqe) // WQEBB
        self.tell()
        if ring:
            self.ring_doorbell()
        return index

    def send(self, *sges, opcode=Opcode.SEND, ring=True, flags=SIGNALED, **segment):
        """A frame: data segments (byte_count, lkey, address), or bytes that go inline."""
        data = [inline(sge) if isinstance(sge, bytes) else DATA.pack(*sge) for sge in sges]
        body = eth_segment(**segment) + b"".join(data)
        return self.post(opcode, body, flags=flags, ring=ring)

    def nop(self, **options):
        """A request that does nothing (core/en/txrx.h: mlx5e_post_nop)."""
        return self.post(Opcode.NOP, **options)

    def tell(self):
        """The producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record + 4, (self.sent & 0xFFFF).to_bytes(4, "big"))

    def ring_doorbell(self):
        """Work is done when the node runs."""
        data = bytes(4) + (self.sqn << 8).to_bytes(4, "big")
        self.node.driver.bar.write(self.node.driver.uar * PAGE + 0x800, data)


def eth_segment(*, cs_flags=0, mss=0, headers=b"", vlan=None, svlan=False):
    """The Ethernet segment, with inline headers behind it or a tag to insert."""
    if vlan is not None:
        trailer = INSERT_VLAN | (INSERT_SVLAN if svlan else 0) | vlan
        return ETH.pack(cs_flags, mss, 0, trailer)
    whole = ETH.pack(cs_flags, mss, 0, len(headers) << 16)
    segment = whole[:INLINE_HDR_START] + headers
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


def inline(data):
    """An inline data segment: its header, the bytes, padding."""
    segment = (1 << 31 | len(data)).to_bytes(4, "big") + data
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")
