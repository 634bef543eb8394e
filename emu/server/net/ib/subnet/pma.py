"""The performance management agents of simulated nodes: their ports' counters (IBTA 16.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from emu.device.port.ib import pma
from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import STEPS_PER_PORT_COUNTED
from emu.server.net.ib.subnet.nodes import PortPosition, SimNode
from emu.server.net.ib.subnet.routes import Routes
from layouts.wire.mads import MgmtClass, PmaAttr, PmaCap, pma_mad

_BY_BIT: Final[Mapping[PmaAttr, tuple[str, ...]]] = {
    PmaAttr.PORT_COUNTERS: (
        "symbol_error_counter", "link_error_recovery_counter", "link_downed_counter",
        "port_rcv_errors", "port_rcv_remphys_errors", "port_rcv_switch_relay_errors",
        "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
        "local_link_integrity_errors", "excessive_buffer_overrun_errors", "vl15_dropped",
        "port_xmit_data", "port_rcv_data",
        "port_xmit_packets", "port_rcv_packets",
    ),
    PmaAttr.PORT_COUNTERS_EXT: (
        "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
        "port_unicast_xmit_packets", "port_unicast_rcv_packets", "port_multicast_xmit_packets",
        "port_multicast_rcv_packets",
    ),
}  # fmt: skip
_COUNTERS: Final[pma.Counters] = {
    attr: {name: 1 << bit for bit, name in enumerate(names)} for attr, names in _BY_BIT.items()
}
_NONE: Final[Counter[str]] = Counter()


class _Counts:
    """Implements :class:`emu.device.port.ib.pma.PortCounts` for a simulated node's port."""

    def __init__(self, counts: Counter[str], base: dict[tuple[int, str], int]) -> None:
        self._counts = counts
        self.base = base

    def value(self, name: str) -> int:
        return self._counts[name]


class CounterAgents:
    """Responds for all simulated nodes."""

    def __init__(self, routes: Routes, round_: Budget) -> None:
        self._routes = routes
        self._round = round_
        self._bases: dict[PortPosition, dict[tuple[int, str], int]] = {}

    def answer(self, node: SimNode, data: bytes) -> bytes | None:
        """Return a node's response to a MAD of 256 bytes; None for another class or no request.

        Packets on routes are added to the ports' counters first. A MAD for ALL_PORTS
        charges the budget for each port.
        """
        if pma_mad.view(data).mad_hdr.mgmt_class != MgmtClass.PERF_MGMT:
            return None
        self._routes.settle()
        mask = PmaCap.EXT_WIDTH | PmaCap.ALL_PORT_SELECT
        return pma.respond(partial(self._selected, node), _COUNTERS, mask, data)

    def _selected(self, node: SimNode, number: int) -> list[_Counts] | None:
        """Return the counters of the ports that a request selects; None for an invalid port.

        ALL_PORTS selects all ports but a switch's port 0.
        """
        first = 0 if node.is_switch else 1
        if number == pma.ALL_PORTS:
            self._round.charge(node.num_ports * STEPS_PER_PORT_COUNTED)
            return [self._of(node, port) for port in range(1, node.num_ports + 1)]
        return [self._of(node, number)] if first <= number <= node.num_ports else None

    def _of(self, node: SimNode, port: int) -> _Counts:
        place = node.number, port
        counts = self._routes.counts.get(place, _NONE)
        return _Counts(counts, self._bases.setdefault(place, {}))
