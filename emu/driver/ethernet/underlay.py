"""Interfaces of IP over InfiniBand, created as by mlx5_core (core/ipoib/ipoib.c)."""

from __future__ import annotations

from typing import Any

from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue, eth_segment
from emu.driver.verbs.node import Node
from emu.driver.verbs.segments import Sge, data_segments
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType, UlpStatelessOffloadMode
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import av

QKEY = 0xB1B
_EXTENDED = 1 << 31
_PAD = bytes(16)
_MAX_PACKET = 4096 + 64


class IpoibInterface:
    """Underlay queue pair, a send queue, and one receive queue for all its packets.

    ``shared`` is an interface whose receive queue and flow table this one uses, like an interface
    of another partition.
    """

    def __init__(
        self, node: Node, *, pkey_index: int = 0, shared: IpoibInterface | None = None,
        receives: int = 16,
    ) -> None:  # fmt: skip
        """Create the interface, set it up, and post ``receives`` WQEs unless it uses another's
        queue.
        """
        self.node, self.pkey_index = node, pkey_index
        self.qpn: int = node.driver.must(Op.CREATE_QP, qpc=underlay_context()).qpn
        self.td = alloc_td(node.driver)
        self.tisn = create_tis(node.driver, self.td, underlay_qpn=self.qpn)
        if shared is None:
            self.rq = ReceiveQueue(node, log_size=receives.bit_length())
            self.buffers = Buffers(self.rq, _MAX_PACKET, count=receives)
            self.tirn = create_direct_tir(node.driver, self.td, self.rq.rqn)
            self.table = self._table()
        else:
            self.rq, self.buffers, self.table = shared.rq, shared.buffers, shared.table
        self.sq = SendQueue(node, tisn=self.tisn)
        self.up()

    def _table(self) -> int:
        """Create a table whose one entry forwards to the TIR; return its number.

        The table matches all packets, and is no root yet.
        """
        flows = Flows(self.node.driver)
        table = flows.table(0, 0)
        flows.entry(table, 0, flows.group(table, 0, 0, enable=0), to_tir(self.tirn))
        return table

    def up(self) -> None:
        """Move the underlay to RTS, and attach it to the table (mlx5i_init_underlay_qp).

        Raises DriverCommandError if refused.
        """
        path = {"pkey_index": self.pkey_index, "vhca_port_num": 1}
        first = {"pm_state": 3, "q_key": QKEY, "primary_address_path": path}
        self.node.driver.must(Op.RST2INIT_QP, qpn=self.qpn, qpc=first)
        self.node.driver.must(Op.INIT2RTR_QP, qpn=self.qpn)
        self.node.driver.must(Op.RTR2RTS_QP, qpn=self.qpn)
        self.node.driver.must(Op.SET_FLOW_TABLE_ROOT, table_id=self.table, underlay_qpn=self.qpn)

    def down(self) -> None:
        """Detach and reset the underlay (mlx5i_close)."""
        self.node.driver.must(Op.SET_FLOW_TABLE_ROOT, op_mod=1, underlay_qpn=self.qpn)
        self.node.driver.must(Op._2RST_QP, qpn=self.qpn)

    def vector(self, to: IpoibInterface, **fields: object) -> dict[str, Any]:
        """Return the address vector of another interface.

        ``fields`` replace its defaults.
        """
        return {
            "dqp_dct": to.qpn | _EXTENDED, "key": QKEY << 32, **self.node.vector_to(to.node),
        } | fields  # fmt: skip

    def send(
        self, vector: dict[str, Any], *sges: Sge | bytes, opcode: Opcode = Opcode.SEND,
        **segment: Any,
    ) -> int:  # fmt: skip
        """Send a packet, from its encapsulation header on; return the WQE's wqe_counter.

        ``segment`` are arguments of :func:`eth_segment`. Ring the doorbell. ``vector`` is that of
        :meth:`vector`.
        """
        body = bytes(av.new(**vector).buf) + _PAD + eth_segment(**segment)
        return self.sq.post(opcode, body + b"".join(data_segments(sges)))


def underlay_context(**fields: object) -> dict[str, Any]:
    """Return the qpc of an underlay's creation (mlx5i_create_underlay_qp)."""
    return {
        "st": QpType.UD, "pm_state": 3,
        "ulp_stateless_offload_mode": UlpStatelessOffloadMode.ENHANCED,
        "primary_address_path": {"vhca_port_num": 1, "grh": 1},
    } | fields  # fmt: skip
