"""DC initiators and targets of a verbs provider (hw/qp.c: create_dci, create_dct)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.driver.command.answer import Answer, DriverError
from emu.driver.command.driver import NUMBERS
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.node import Node
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType, RqType
from layouts.rings.wqe import av

if TYPE_CHECKING:
    from layouts.objects.dct import dctc

ACCESS_KEY = 0x5A5A_0000_1234_5678
NOT_THE_USERS = 0x777
"""Shared queue in the context of an initiator: one that its user may not use."""
_EXTENDED = 1 << 31
_STREAM_AT = 9


class Target:
    """DC target with a shared receive queue and a completion queue."""

    def __init__(self, node: Node, *, cqe_sz: int = 0, **context: Any) -> None:
        """Create the target; ``cqe_sz`` is that of its CQ, ``context`` are fields of dctc."""
        self.node = node
        self.cq = CompletionQueue(node, cqe_sz=cqe_sz)
        self.srq = node.shared_queue()
        self.dctn: int = node.driver.must(Op.CREATE_DCT, **self.fields(**context)).dctn

    def fields(self, **context: object) -> dict[str, Any]:
        """Return the input of CREATE_DCT; ``context`` replaces fields of dctc."""
        return {
            "dct_context_entry": {
                "pd": self.node.pdn, "cqn": self.cq.cqn, "srqn_xrqn": self.srq.srqn, "rre": 1,
                "rwe": 1, "rae": 1, "atomic_mode": 1, "mtu": 3, "min_rnr_nak": 1, "port": 1,
                "dc_access_key": ACCESS_KEY, "user_index": NUMBERS,
            } | context,
        }  # fmt: skip

    def drain(self) -> Answer:
        """Run DRAIN_DCT and return its answer. Raises DriverError if the command is refused."""
        return self.node.driver.must(Op.DRAIN_DCT, dctn=self.dctn)

    def destroy(self) -> Answer:
        """Run DESTROY_DCT and return its answer. Raises DriverError if the command is refused."""
        return self.node.driver.must(Op.DESTROY_DCT, dctn=self.dctn)

    def query(self) -> dctc:
        """Return the current context, by QUERY_DCT.

        Raises DriverError if the command is refused.
        """
        context: dctc = self.node.driver.must(Op.QUERY_DCT, dctn=self.dctn).dct_context_entry
        return context


class Initiator(QueuePair):
    """Queue pair whose WQEs are for ``to``, a target, in ``stream``."""

    def __init__(
        self, node: Node, to: Target | None = None, *, streams: tuple[int, int] = (0, 0),
        ack_timeout: int = 14, cs_req: int = 0, **rts: Any,
    ) -> None:  # fmt: skip
        """Create the initiator.

        ``streams`` are two logarithms: the number of streams, and the number of those that may
        fail. ``cs_req`` is the qpc's.
        """
        channels, errored = streams
        super().__init__(
            node, QpType.DCI, rq_type=RqType.SRQ, srqn_rmpn_xrqn=NOT_THE_USERS, log_rq_size=0,
            log_rq_stride=0, log_num_dci_stream_channels=channels,
            log_num_dci_errored_streams=errored, cs_req=cs_req,
        )  # fmt: skip
        self.to, self.key, self.stream = to, ACCESS_KEY, 0
        self.rts = {"ack_timeout": ack_timeout} | rts
        self.start()

    def start(self) -> None:
        """Move the queue pair from RST to RTS, without a peer. Raises DriverError if refused."""
        self.init()
        self.to_rtr()
        self.to_rts(**self.rts)

    def post(self, opcode: int, *segments: bytes, **options: Any) -> int:
        """Post a WQE with the address vector of the target; return the WQE's wqe_counter.

        Raises DriverError without a target.
        """
        if self.to is None:
            raise DriverError("there is no target")
        vector = {"key": self.key, "dqp_dct": self.to.dctn | _EXTENDED}
        vector |= self.node.vector_to(self.to.node)
        return super().post(opcode, bytes(av.new(**vector).buf), *segments, **options)

    def ring(self, wqe: bytes = b"") -> None:
        """Write the stream's number into the control segment, then ring the doorbell."""
        at = (self.sent - len(wqe) // 64) % self.sq_size * 64
        self.put(self.sq_offset + at + _STREAM_AT, self.stream.to_bytes(2, "big"))
        super().ring(wqe)
