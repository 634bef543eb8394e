"""Ethernet receive queues as mlx5e and a raw packet queue pair keep them."""

from __future__ import annotations

from emu.driver.ethernet.rings import rq_fields
from layouts.enums import Op
from layouts.eth_enums import RqState, WqType
from layouts.eth_wqe import (
    START_PADDING,
)
from layouts.wqe import DATA, NEXT

END_OF_LIST = DATA.pack(0, 0x100, 0)


class ReceiveQueue:
    """An RQ with a CQ of its own, unless it is given one."""

    def __init__(self, node, *, cq=None, log_size=4, log_stride=5, ready=True, **context):
        self.node, self.stride, self.size = node, 1 << log_stride, 1 << log_size
        self.cq = cq or node.completion_queue()
        fields, self.ring = rq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, log_stride=log_stride, **context
        )
        self.is_list = fields["ctx"]["wq"]["wq_type"] == WqType.LINKED_LIST
        self.rqn = node.driver.must(Op.CREATE_RQ, **fields).rqn
        self.state = RqState.RST
        self.posted = 0
        if ready:
            self.modify(RqState.RDY)

    @property
    def object(self):
        """The device's side."""
        return self.node.hca.rqs.need(self.rqn)

    def modify(self, state, ctx=(), **fields):
        """To another state; back in RST both sides count from 0."""
        self.node.driver.must(
            Op.MODIFY_RQ, rqn=self.rqn, rq_state=self.state, ctx={"state": state} | dict(ctx),
            **fields,
        )  # fmt: skip
        self.state = state
        if state is RqState.RST:
            self.posted = 0
            self.node.memory.write(self.ring.record, bytes(8))

    def query(self):
        """The context of now."""
        return self.node.driver.must(Op.QUERY_RQ, rqn=self.rqn).rq_context

    def post(self, *sges, tell=True):
        """Post one WQE: (byte_count, lkey, address) each, with the bit that mlx5e sets."""
        index = self.posted % self.size
        wqe = NEXT.pack((index + 1) % self.size) if self.is_list else b""
        wqe += b"".join(DATA.pack(size | START_PADDING, key, at) for size, key, at in sges)
        if len(wqe) < self.stride:
            wqe += END_OF_LIST
        self.ring.write(index * self.stride, wqe)
        self.posted += 1
        if tell:
            self.tell()

    def tell(self):
        """The producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record, (self.posted & 0xFFFF).to_bytes(4, "big"))
