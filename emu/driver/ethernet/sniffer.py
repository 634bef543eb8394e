"""Sniffer as mlx5_ib creates it: a match-all entry in the sniffer tables of both directions."""

from __future__ import annotations

from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.verbs.node import Node
from layouts.enums.flow_table import FlowTableType

BUFFER_BYTES = 4096
RX, TX = FlowTableType.SNIFFER_RX, FlowTableType.SNIFFER_TX


class Sniffer:
    """Receives copies of all packets of a function (ib/fs.c: create_sniffer_rule)."""

    def __init__(
        self, node: Node, kinds: tuple[FlowTableType, ...] = (RX, TX), *, requests: int = 128
    ) -> None:
        """Create tables and queue, and post ``requests`` receive WQEs."""
        self.rq = ReceiveQueue(node, log_size=8, cq=node.completion_queue(8))
        self.buffers = Buffers(self.rq, BUFFER_BYTES, count=requests)
        self.tirn = create_direct_tir(node.driver, alloc_td(node.driver), self.rq.rqn)
        self.tables: list[tuple[Flows, int, int]] = []
        for kind in kinds:
            flows = Flows(node.driver, kind)
            table = flows.table(0, log_size=0)
            group = flows.group(table, 0, 0)
            flows.entry(table, 0, group, to_tir(self.tirn))
            flows.set_root(table)
            self.tables.append((flows, table, group))

    def stop(self) -> None:
        """Delete the entries; later packets are not copied. The tables stay the roots."""
        for flows, table, _ in self.tables:
            flows.delete(table, 0)

    def disconnect(self) -> None:
        """Remove the roots."""
        for flows, _, _ in self.tables:
            flows.disconnect()

    def frames(self) -> list[bytes]:
        """Return the packets received since the last call."""
        return [data for _, data in self.buffers.drain()]
