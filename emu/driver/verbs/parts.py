"""Objects that a queue pair needs, and its transitions by command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.driver.command.driver import Driver, Fields
from layouts.enums.cmd import Op
from layouts.enums.qp import QpState

if TYPE_CHECKING:
    from layouts.objects.qp import qpc

INIT: Fields = {"rre": 1, "rwe": 1, "primary_address_path": {"pkey_index": 0, "vhca_port_num": 1}}
RTR: Fields = {
    "mtu": 5,
    "log_msg_max": 30,
    "remote_qpn": 0x123,
    "next_rcv_psn": 0x456,
    "log_rra_max": 2,
    "min_rnr_nak": 12,
    "primary_address_path": {
        "rlid": 7, "sl": 2, "grh": 1, "hop_limit": 64, "src_addr_index": 0, "mlid": 0,
        "rgid_rip": bytes(range(16)), "flow_label": 0x12345, "tclass": 9,
    },
}  # fmt: skip
RTS: Fields = {
    "next_send_psn": 0x789,
    "log_sra_max": 3,
    "retry_count": 5,
    "rnr_retry": 6,
    "primary_address_path": {"ack_timeout": 14},
}

STEPS = {
    QpState.INIT: (Op.RST2INIT_QP, INIT),
    QpState.RTR: (Op.INIT2RTR_QP, RTR),
    QpState.RTS: (Op.RTR2RTS_QP, RTS),
}


class Parts:
    """Protection domain, an EQ and a CQ, and the queue pairs that use them."""

    def __init__(self, driver: Driver, **cq_context: Any) -> None:
        """Create the objects; ``cq_context`` are fields of cqc."""
        self.driver = driver
        self.pdn = driver.alloc_pd()
        self.cqn = driver.create_cq(driver.create_eq(), **cq_context)

    def fields(self, **context: Any) -> Fields:
        """Return the input of CREATE_QP."""
        return self.driver.qp_fields(self.pdn, self.cqn, **context)

    def make(self, state: QpState = QpState.RST, **context: object) -> int:
        """Create a queue pair and move it to ``state``; return its number.

        ERR is reached directly from RST. SQER, SQD and other higher states leave it in RST. Raises
        DriverError for a refused command.
        """
        qpn = self.driver.create_qp(self.pdn, self.cqn, **context)
        if state is QpState.ERR:
            self.driver.must(Op._2ERR_QP, qpn=qpn)
        for target, (op, qpc) in STEPS.items():
            if target <= state < QpState.SQER:
                self.driver.must(op, qpn=qpn, qpc=self.on_this_link(qpc))
        return qpn

    def on_this_link(self, qpc: Fields) -> Fields:
        """Return the fields in a form for this port's type.

        On every Ethernet port, which has no GID here, ``{"fl": 1}`` (force loopback) replaces the
        whole primary_address_path. Fields without remote_qpn, and all fields on InfiniBand, are
        returned unchanged.
        """
        if not self.driver.caps.port_type or "remote_qpn" not in qpc:
            return qpc
        return {**qpc, "primary_address_path": {"fl": 1}}

    def query(self, qpn: int) -> qpc:
        """Return the current context."""
        context: qpc = self.driver.must(Op.QUERY_QP, qpn=qpn).qpc
        return context
