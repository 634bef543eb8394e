"""Queue pairs of a verbs provider: their rings and their states (hw/qp.c)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from emu.driver.command.words import unpack64
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.requests import WorkRequests
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums.cmd import Op
from layouts.enums.qp import QpState, QpType, RqType


class QueuePair(WorkRequests):
    """Queue pair of the driver's, with its rings, created in RST.

    ``cq`` is the completion queue of both directions, unless receives have one of their own.
    """

    def __init__(
        self, node: Endpoint, st: QpType = QpType.RC, *, log_sq_size: int = 6,
        log_rq_size: int = 6, log_rq_stride: int = 2, srq: SharedQueue | None = None,
        cq: CompletionQueue | None = None, rcq: CompletionQueue | None = None,
        log_cq_size: int = 8, **context: Any,
    ) -> None:  # fmt: skip
        """Create a queue pair.

        ``cq`` takes all completions, unless ``rcq`` takes those of receives. The send queue has ``1
        << log_sq_size`` WQEBBs; receive WQEs have ``16 << log_rq_stride`` bytes. ``context`` are
        fields of qpc.
        """
        self.node, self.st, self.srq = node, st, srq
        self.cq = cq or CompletionQueue(node, log_cq_size)
        context = {"fre": 1} | context  # as in kernels' queue pairs
        if rcq is not None:
            context["cqn_rcv"] = rcq.cqn
        if srq is not None:
            context |= {"rq_type": RqType.SRQ, "srqn_rmpn_xrqn": srq.srqn, "log_rq_size": 0}
            context |= {"log_rq_stride": 0}
        else:
            context = {"log_rq_size": log_rq_size, "log_rq_stride": log_rq_stride} | context
        fields = node.driver.qp_fields(
            node.pdn, self.cq.cqn, st=st, log_sq_size=log_sq_size, **context
        )
        self.pages, self.record = unpack64(fields["extra"]), fields["qpc"]["dbr_addr"]
        has_rq = fields["qpc"].get("rq_type", RqType.RQ) == RqType.RQ
        self.rq_stride = 16 << fields["qpc"]["log_rq_stride"]
        self.rq_size = 1 << fields["qpc"]["log_rq_size"]
        self.sq_offset = self.rq_size * self.rq_stride if has_rq else 0
        self.sq_size = 1 << log_sq_size
        self.sent = self.received = 0
        self.qpn = node.driver.must(Op.CREATE_QP, **fields).qpn

    def init(self, **qpc: Any) -> Self:
        """Move from RST to INIT with these fields of qpc, and return the queue pair.

        The peer has all rights by default. Raises DriverError for a refused transition.
        """
        path = {"vhca_port_num": 1} | qpc.pop("primary_address_path", {})
        qpc = {"rre": 1, "rwe": 1, "rae": 1, "atomic_mode": 1, "primary_address_path": path} | qpc
        self.node.driver.must(Op.RST2INIT_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_rtr(
        self, lid: int = 0, qpn: int = 0, psn: int = 0,
        path: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), **qpc: object,
    ) -> Self:  # fmt: skip
        """Move from INIT to RTR, and return the queue pair.

        ``lid``, ``qpn`` and ``psn`` are the peer's; ``path`` has other fields of ads. Raises
        DriverError for a refused transition.
        """
        qpc = {
            "mtu": 3, "log_msg_max": 30, "remote_qpn": qpn, "next_rcv_psn": psn, "log_rra_max": 4,
            "min_rnr_nak": 1, "primary_address_path": {"rlid": lid, **dict(path)},
        } | qpc  # fmt: skip
        self.node.driver.must(Op.INIT2RTR_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_rts(self, psn: int = 0, ack_timeout: int = 14, **qpc: Any) -> Self:
        """Move from RTR to RTS, and return the queue pair; ``psn`` is its own first PSN.

        The timeout is 4.096 us << ``ack_timeout``. Raises DriverError for a refused transition.
        """
        qpc = {
            "next_send_psn": psn, "log_sra_max": 4, "retry_count": 7, "rnr_retry": 7,
            "primary_address_path": {"ack_timeout": ack_timeout},
        } | qpc  # fmt: skip
        self.node.driver.must(Op.RTR2RTS_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_error(self) -> None:
        """Move to ERR, which flushes outstanding WQEs. Raises DriverError if refused."""
        self.node.driver.must(Op._2ERR_QP, qpn=self.qpn)

    def to_reset(self) -> None:
        """Move to RST; like the driver, zero the own counters and the doorbell record, too.

        Raises DriverError for a refused transition.
        """
        self.node.driver.must(Op._2RST_QP, qpn=self.qpn)
        self.sent = self.received = 0
        self.node.memory.write(self.record, bytes(8))

    def destroy(self) -> None:
        """Run DESTROY_QP; the CQ stays."""
        self.node.driver.must(Op.DESTROY_QP, qpn=self.qpn)

    @property
    def state(self) -> QpState:
        """Current state, as the device reports it."""
        return QpState(self.node.driver.must(Op.QUERY_QP, qpn=self.qpn).qpc.state)
