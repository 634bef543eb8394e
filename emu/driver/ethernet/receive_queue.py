"""Ethernet receive queues, used as by mlx5e and a raw packet queue pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from emu.device.objects.eth.rq import Rq
from emu.driver.ethernet.rings import rq_fields
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import END_OF_LIST, Sge
from layouts.enums.cmd import Op
from layouts.enums.wq import RqState, WqType
from layouts.rings.eth_wqe import START_PADDING
from layouts.rings.wqe import DATA, NEXT

if TYPE_CHECKING:
    from layouts.objects.rq import rqc


class ReceiveQueue:
    """RQ with a CQ of its own, unless the caller passes one."""

    def __init__(
        self, node: Endpoint, *, cq: CompletionQueue | None = None, log_size: int = 4,
        log_stride: int = 5, ready: bool = True, **context: Any,
    ) -> None:  # fmt: skip
        """Create the queue, in RDY if ``ready``; for the rest see :func:`rq_fields`."""
        self.node, self.stride, self.size = node, 1 << log_stride, 1 << log_size
        self.cq = cq or CompletionQueue(node)
        fields, self.ring = rq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, log_stride=log_stride, **context
        )
        self.is_list = fields["ctx"]["wq"]["wq_type"] == WqType.LINKED_LIST
        self.rqn: int = node.driver.must(Op.CREATE_RQ, **fields).rqn
        self.state = RqState.RST
        self.posted = 0
        if ready:
            self.modify(RqState.RDY)

    @property
    def object(self) -> Rq:
        """Device's side of the queue."""
        return self.node.hca.rqs.need(self.rqn)

    def modify(self, state: RqState, ctx: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Move the queue to a state; back in RST both sides count from 0.

        RST also clears the doorbell record. ``fields`` are of the command. Raises
        DriverCommandError if refused.
        """
        self.node.driver.must(
            Op.MODIFY_RQ, rqn=self.rqn, rq_state=self.state, ctx={"state": state} | dict(ctx or {}),
            **fields,
        )  # fmt: skip
        self.state = state
        if state is RqState.RST:
            self.posted = 0
            self.node.memory.write(self.ring.record, bytes(8))

    def query(self) -> rqc:
        """Return the current context."""
        context: rqc = self.node.driver.must(Op.QUERY_RQ, rqn=self.rqn).rq_context
        return context

    def post(self, *sges: Sge, update_record: bool = True) -> None:
        """Post one WQE with a data segment for each (byte_count, lkey, address).

        START_PADDING is set as by mlx5e. ``update_record`` writes the doorbell record; without it
        the device does not see the WQE yet. A full ring is not checked.
        """
        index = self.posted % self.size
        wqe = NEXT.pack((index + 1) % self.size) if self.is_list else b""
        wqe += b"".join(DATA.pack(size | START_PADDING, key, at) for size, key, at in sges)
        if len(wqe) < self.stride:
            wqe += END_OF_LIST
        self.ring.write(index * self.stride, wqe)
        self.posted += 1
        if update_record:
            self.write_record()

    def write_record(self) -> None:
        """Write the producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record, (self.posted & 0xFFFF).to_bytes(4, "big"))
