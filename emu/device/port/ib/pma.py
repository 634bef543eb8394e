"""Performance management agents: traffic and error counters of ports by MAD.

A function's port has an agent, and each simulated node of a subnet.

Source: IBTA volume 1, 16.1. The adapter responds to these MADs itself, both those that arrive at
QP1 and those that the driver sends with MAD_IFC. The responses that hw/mad.c:process_pma_cmd builds
are usable for sysfs only, as they have no MAD header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from emu.device.port.counts import Traffic
from emu.device.port.ib.link_errors import (
    INTEGRITY_ERRORS,
    OVERRUN_ERRORS,
    RECEIVE_ERRORS,
    RECOVERIES,
    SYMBOL_ERRORS,
)
from emu.device.port.ib.port import IbPort
from layouts.wire.mads import (
    BASE_VERSION,
    RESPONSE,
    MadStatus,
    Method,
    PmaAttr,
    PmaCap,
    class_port_info,
    pma_mad,
    pma_portcounters,
    pma_portcounters_ext,
)

CLASS_VERSION: Final = 1
RESP_TIME: Final = 18
ALL_PORTS: Final = 0xFF
_UNICAST: Final = (False,)
_MULTICAST: Final = (True,)
_ALL: Final = (False, True)
_OCTETS_PER_WORD: Final = 4

_Value = Callable[[IbPort], int]
_Direction = Callable[[IbPort], tuple[Traffic, Traffic]]


def _sent(port: IbPort) -> tuple[Traffic, Traffic]:
    """Return sent traffic without unicast packets of the port to itself."""
    unicast, multicast = port.transmitted
    return _without(unicast, port.looped[0]), multicast


def _received(port: IbPort) -> tuple[Traffic, Traffic]:
    unicast, multicast = port.received
    return _without(unicast, port.looped[0]), _without(multicast, port.looped[1])


def _without(all_: Traffic, looped: Traffic) -> Traffic:
    """Return the difference; 0 where looped packets were lost before they were received."""
    return Traffic(max(all_.packets - looped.packets, 0), max(all_.octets - looped.octets, 0))


def _packets(direction: _Direction, casts: tuple[bool, ...]) -> _Value:
    return lambda port: sum(direction(port)[cast].packets for cast in casts)


def _error(name: str) -> _Value:
    return lambda port: port.errors[name]


def _words(direction: _Direction) -> _Value:
    return lambda port: sum(traffic.octets for traffic in direction(port)) // _OCTETS_PER_WORD


_ERRORS: Final = (SYMBOL_ERRORS, RECOVERIES, RECEIVE_ERRORS, INTEGRITY_ERRORS, OVERRUN_ERRORS)
_VALUES: Final[dict[str, _Value]] = {
    **{name: _error(name) for name in _ERRORS},
    "link_downed_counter": lambda port: port.link_downed,
    "port_xmit_data": _words(_sent),
    "port_rcv_data": _words(_received),
    "port_xmit_packets": _packets(_sent, _ALL),
    "port_rcv_packets": _packets(_received, _ALL),
    "port_unicast_xmit_packets": _packets(_sent, _UNICAST),
    "port_unicast_rcv_packets": _packets(_received, _UNICAST),
    "port_multicast_xmit_packets": _packets(_sent, _MULTICAST),
    "port_multicast_rcv_packets": _packets(_received, _MULTICAST),
}
"""Sources of the counters; the counters not listed count errors that never happen."""


def value(port: IbPort, name: str) -> int:
    """Return a counter of a function's port, by its name in PortCounters or its extension."""
    return _VALUES[name](port)


Counters = Mapping[PmaAttr, Mapping[str, int]]
"""The counters of an agent's ports, with their bits of CounterSelect, which selects those that a
Set changes."""
COUNTERS: Final[Counters] = {
    PmaAttr.PORT_COUNTERS: {
        SYMBOL_ERRORS: 1 << 0,
        RECOVERIES: 1 << 1,
        "link_downed_counter": 1 << 2,
        RECEIVE_ERRORS: 1 << 3,
        INTEGRITY_ERRORS: 1 << 9,
        OVERRUN_ERRORS: 1 << 10,
        "port_xmit_data": 1 << 12,
        "port_rcv_data": 1 << 13,
        "port_xmit_packets": 1 << 14,
        "port_rcv_packets": 1 << 15,
    },
    PmaAttr.PORT_COUNTERS_EXT: {
        "port_xmit_data": 1 << 0,
        "port_rcv_data": 1 << 1,
        "port_xmit_packets": 1 << 2,
        "port_rcv_packets": 1 << 3,
        "port_unicast_xmit_packets": 1 << 4,
        "port_unicast_rcv_packets": 1 << 5,
        "port_multicast_xmit_packets": 1 << 6,
        "port_multicast_rcv_packets": 1 << 7,
    },
}
_LAYOUTS: Final[Mapping[PmaAttr, type[Any]]] = {
    PmaAttr.PORT_COUNTERS: pma_portcounters,
    PmaAttr.PORT_COUNTERS_EXT: pma_portcounters_ext,
}


class PortCounts(Protocol):
    """The counters of one port."""

    @property
    def base(self) -> MutableMapping[tuple[int, str], int]:
        """The values when counters were last set, by attribute and counter."""

    def value(self, name: str, /) -> int:
        """Return a counter's value since the creation of the port."""


Select = Callable[[int], Sequence[PortCounts] | None]
"""Returns the ports that a PortSelect names; None if there is no such port."""


class _FunctionCounts:
    """Implements PortCounts for a function's port."""

    def __init__(self, port: IbPort) -> None:
        self._port = port
        self.base = port.pma_base

    def value(self, name: str) -> int:
        return value(self._port, name)


def answer(port: IbPort, data: bytes) -> bytes | None:
    """Return the response to a 256-byte MAD for a function's port, as :func:`respond` does.

    The only ports are 1 and ALL_PORTS. The port counts the messages of its direct paths first.
    """
    port.uncounted.count()
    return respond(partial(_selected, port), COUNTERS, PmaCap.EXT_WIDTH, data)


def _selected(port: IbPort, number: int) -> Sequence[PortCounts] | None:
    return [_FunctionCounts(port)] if number in (1, ALL_PORTS) else None


def respond(select: Select, counters: Counters, capability_mask: int, data: bytes) -> bytes | None:
    """Return the response of an agent to a 256-byte MAD; None if neither a Get nor a Set.

    A Set first changes the selected counters of all ports that PortSelect names. An error is the
    MadStatus of the response: BAD_VERSION, UNSUPPORTED_METHOD_ATTRIB, or INVALID_ATTRIB_VALUE for
    an unknown port.
    """
    mad = pma_mad.view(bytearray(data))
    if mad.mad_hdr.method not in (Method.GET, Method.SET):
        return None
    mad.mad_hdr.status = _act(select, counters, capability_mask, mad)
    mad.mad_hdr.method = Method.GET | RESPONSE
    return bytes(mad)


def _act(select: Select, counters: Counters, capability_mask: int, mad: pma_mad) -> MadStatus:
    """Execute the MAD in place and return its status; on an error its data stay.

    Errors: BAD_VERSION, UNSUPPORTED_METHOD_ATTRIB, and INVALID_ATTRIB_VALUE for an unknown port.
    """
    hdr = mad.mad_hdr
    if (hdr.base_version, hdr.class_version) != (BASE_VERSION, CLASS_VERSION):
        return MadStatus.BAD_VERSION
    if hdr.attr_id == PmaAttr.CLASS_PORT_INFO and hdr.method == Method.GET:
        info = class_port_info.new(
            base_version=BASE_VERSION, class_version=CLASS_VERSION,
            capability_mask=capability_mask, cap_mask2_resp_time={"resp_time": RESP_TIME},
        )  # fmt: skip
        mad.data = bytes(info).ljust(len(mad.data), b"\0")
        return MadStatus.SUCCESS
    if hdr.attr_id not in _LAYOUTS:
        return MadStatus.UNSUPPORTED_METHOD_ATTRIB
    attr = PmaAttr(hdr.attr_id)
    given = _LAYOUTS[attr].view(mad.data)
    ports = select(given.port_select)
    if ports is None:
        return MadStatus.INVALID_ATTRIB_VALUE
    if hdr.method == Method.SET:
        for port in ports:
            _set(port, counters[attr], attr, given)
    mad.data = bytes(_get(ports, counters[attr], attr, given)).ljust(len(mad.data), b"\0")
    return MadStatus.SUCCESS


def _get(ports: Sequence[PortCounts], names: Mapping[str, int], attr: PmaAttr, given: Any) -> Any:
    """Return the sums of the ports' counters; each stops at its maximum (16.1.3.5).

    A counter is 0 while a packet that the port has sent to itself before a Set is on its way:
    looped back, it counts no longer.
    """
    layout = _LAYOUTS[attr]
    counters = layout.new(port_select=given.port_select, counter_select=given.counter_select)
    for field in layout.fields:
        if field.name in names:
            key = attr, field.name
            value = sum(port.value(field.name) - port.base.get(key, 0) for port in ports)
            setattr(counters, field.name, max(0, min(value, (1 << field.width) - 1)))
    return counters


def _set(port: PortCounts, names: Mapping[str, int], attr: PmaAttr, given: Any) -> None:
    """Set the counters in CounterSelect by changing their base; the counts are unchanged."""
    for name, bit in names.items():
        if given.counter_select & bit:
            port.base[attr, name] = port.value(name) - getattr(given, name)
