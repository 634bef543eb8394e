"""The performance management agents of simulated nodes: their ports' counters (IBTA 16.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from emu.device.port.ib.pma import ALL_PORTS, CLASS_VERSION, RESP_TIME
from emu.server.net.ib.subnet.nodes import SimNode
from emu.server.net.ib.subnet.routes import Routes
from layouts.prm import Prm
from layouts.wire.mads import (
    BASE_VERSION,
    RESPONSE,
    MadStatus,
    Method,
    MgmtClass,
    PmaAttr,
    PmaCap,
    class_port_info,
    pma_mad,
    pma_portcounters,
    pma_portcounters_ext,
)

if TYPE_CHECKING:
    from layouts.wire.mads import PmaMad

_EVERY_PORT: Final = 1 << 8
"""ClassPortInfo.CapabilityMask: AllPortSelect."""
_LAYOUTS: Final[Mapping[int, Prm]] = {
    PmaAttr.PORT_COUNTERS: pma_portcounters,
    PmaAttr.PORT_COUNTERS_EXT: pma_portcounters_ext,
}
_SELECT: Final[Mapping[int, tuple[str, ...]]] = {
    PmaAttr.PORT_COUNTERS: (
        "symbol_error_counter", "link_error_recovery_counter", "link_downed_counter",
        "port_rcv_errors", "port_rcv_remphys_errors", "port_rcv_switch_relay_errors",
        "port_xmit_discards", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
        "", "link_overrun_errors", "vl15_dropped", "port_xmit_data", "port_rcv_data",
        "port_xmit_packets", "port_rcv_packets",
    ),
    PmaAttr.PORT_COUNTERS_EXT: (
        "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
        "port_unicast_xmit_packets", "port_unicast_rcv_packets", "port_multicast_xmit_packets",
        "port_multicast_rcv_packets",
    ),
}  # fmt: skip
"""The counter of each bit of CounterSelect, which selects those that a Set changes."""


class CounterAgents:
    """Answers for all simulated nodes."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._bases: dict[tuple[int, int, int], Counter[str]] = {}
        """What was there when counters were last set: by node, port and attribute."""

    def answer(self, node: SimNode, data: bytes) -> bytes | None:
        """The response to a MAD of 256 bytes; None when it is none that is answered."""
        mad = pma_mad.view(bytearray(data))
        hdr = mad.mad_hdr
        if hdr.method not in (Method.GET, Method.SET) or hdr.mgmt_class != MgmtClass.PERF_MGMT:
            return None
        hdr.status = self._act(node, mad)
        hdr.method = Method.GET | RESPONSE
        return bytes(mad)

    def _act(self, node: SimNode, mad: PmaMad) -> MadStatus:
        hdr = mad.mad_hdr
        if (hdr.base_version, hdr.class_version) != (BASE_VERSION, CLASS_VERSION):
            return MadStatus.BAD_VERSION
        if hdr.attr_id == PmaAttr.CLASS_PORT_INFO and hdr.method == Method.GET:
            info = class_port_info.new(
                base_version=BASE_VERSION, class_version=CLASS_VERSION,
                capability_mask=PmaCap.EXT_WIDTH | _EVERY_PORT,
                cap_mask2_resp_time={"resp_time": RESP_TIME},
            )  # fmt: skip
            mad.data = bytes(info).ljust(len(mad.data), b"\0")
            return MadStatus.SUCCESS
        if hdr.attr_id not in _LAYOUTS:
            return MadStatus.UNSUPPORTED_METHOD_ATTRIB
        given = _LAYOUTS[hdr.attr_id].view(mad.data)
        ports = _selected(node, given.port_select)
        if ports is None:
            return MadStatus.INVALID_ATTRIB_VALUE
        self._routes.settle()
        if hdr.method == Method.SET:
            for port in ports:
                self._set(node.number, port, hdr.attr_id, given)
        values = self._values(node.number, ports, hdr.attr_id)
        mad.data = _filled(hdr.attr_id, given, values).ljust(len(mad.data), b"\0")
        return MadStatus.SUCCESS

    def _set(self, node: int, port: int, attr: int, given: Any) -> None:
        """Counts go on; only the base that they count from is changed."""
        base = self._bases.setdefault((node, port, attr), Counter())
        counts = self._routes.counts.get((node, port), Counter())
        for bit, name in enumerate(_SELECT[attr]):
            if name and given.counter_select >> bit & 1:
                base[name] = counts[name] - getattr(given, name)

    def _values(self, node: int, ports: range, attr: int) -> Callable[[str], int]:
        places = [(node, port) for port in ports]
        counts = [self._routes.counts.get(place, Counter()) for place in places]
        bases = [self._bases.get((*place, attr), Counter()) for place in places]
        return lambda name: sum(
            count[name] - base[name] for count, base in zip(counts, bases, strict=True)
        )


def _selected(node: SimNode, number: int) -> range | None:
    """The ports that a request is about; None when there is no such port."""
    first = 0 if node.is_switch else 1
    if number == ALL_PORTS:
        return range(1, node.num_ports + 1)
    return range(number, number + 1) if first <= number <= node.num_ports else None


def _filled(attr: int, given: Any, value: Callable[[str], int]) -> bytes:
    """The counters; each one stops at its maximum (16.1.3.5)."""
    layout = _LAYOUTS[attr]
    counters = layout.new(port_select=given.port_select, counter_select=given.counter_select)
    for field in layout.fields:
        if field.name in _SELECT[attr]:
            setattr(counters, field.name, min(value(field.name), (1 << field.width) - 1))
    return bytes(counters)
