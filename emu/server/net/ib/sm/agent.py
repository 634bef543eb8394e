"""Attributes of the switch and its manager in SMPs (IBTA 14.2.5).

All values follow from the connected ports. The manager is always the subnet's master, so a manager
in a guest stands by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from emu.device.port.ib import sma
from emu.device.port.ib.endport import EndPort
from layouts.enums.vport import PhysState, PortState
from layouts.wire.bth import MULTICAST_LID
from layouts.wire.mads import SmpAttr, SmState, linear_forw_table, sm_info, switch_info

if TYPE_CHECKING:
    from layouts.wire.mads import smp

HIGHEST_PRIORITY = 15
TRUSTED_SM_KEY = 1
"""OpenSM's default; OpenSM stands by only for a manager with its own key. The administrator reports
other ports' memberships and service keys to a requester with this key."""
LIDS_OF_A_BLOCK = 64
_NO_PORT = 255
_LIFE_TIME = 18


class Ports:
    """The switch's ports: port 0 is the manager's, each other one leads to a port of the subnet."""

    def __init__(self, own: EndPort) -> None:
        self.own = own
        self._numbers: dict[int, int] = {}
        """Numbers by GUID. A port keeps its number while it is down."""
        self._by_number: dict[int, EndPort] = {}
        self._by_lid: dict[int, int] = {}
        self.queries = 0
        """Number of SMInfo queries."""

    def connect(self, ports: Sequence[EndPort], *, limit: int) -> None:
        """Assign a number to each active port, and keep the numbers of ports that are known.

        Above ``limit``, a port takes the number of one that has left, or is ignored. The management
        port's num_ports grows with the highest number.
        """
        present = {port.port_guid for port in ports}
        for port in ports:
            if port.port_guid not in self._numbers:
                number = self._free(limit, present)
                if number is None:
                    break
                self._numbers[port.port_guid] = number
        self._by_number = {
            self._numbers[port.port_guid]: port for port in ports if port.port_guid in self._numbers
        }
        self._by_lid = {port.lid: number for number, port in self._by_number.items()}
        self.own = replace(self.own, num_ports=max(self.own.num_ports, *self._numbers.values(), 1))

    def _free(self, limit: int, present: set[int]) -> int | None:
        """Return an unused number up to ``limit``, or that of a port which has left.

        Return None if all are in use. The port that has left is forgotten; ``present`` has the
        GUIDs of the active ports.
        """
        used = set(self._numbers.values())
        for number in range(1, limit + 1):
            if number not in used:
                return number
        for guid, number in self._numbers.items():
            if guid not in present:
                del self._numbers[guid]
                return number
        return None

    def number_of(self, lid: int) -> int | None:
        """Return the number of the port that leads to a LID; None without one."""
        return self._by_lid.get(lid)

    @property
    def connected(self) -> Iterable[int]:
        """The numbers of the ports with a port of the subnet behind."""
        return self._by_number.keys()

    def behind(self, number: int) -> EndPort | None:
        """Return the port of the subnet behind a port of the switch; None without one."""
        return self._by_number.get(number)

    def exit_to(self, lid: int) -> int:
        """Return the output port for a LID; 0 for the switch's own."""
        return 0 if lid == self.own.lid else self._by_lid.get(lid, _NO_PORT)


class SwitchSmpRequest(NamedTuple):
    """A request, and the switch port at which it arrived."""

    ports: Ports
    entry: int

    @property
    def own(self) -> EndPort:
        """The management port in the view of the requester's port."""
        return replace(self.ports.own, port_num=self.entry)


def _own(fill: sma.Handler[EndPort]) -> sma.Handler[SwitchSmpRequest]:
    """Return a handler that calls ``fill`` with the management port in the requester's view."""
    return lambda request, mad: fill(request.own, mad)


def _switch_info(request: SwitchSmpRequest, _mad: smp) -> bytes | None:
    """Return SwitchInfo: any unicast LID is valid, and nothing changed since the last sweep."""
    info = switch_info.new(
        linear_fdb_cap=MULTICAST_LID, linear_fdb_top=request.own.lid, life_time_value=_LIFE_TIME,
        default_port=_NO_PORT, default_mcast_primary=_NO_PORT,
        default_mcast_not_primary=_NO_PORT,
    )  # fmt: skip
    return bytes(info)


def _port_info(request: SwitchSmpRequest, mad: smp) -> bytes | None:
    """Return PortInfo of a switch port; None for a number above NumPorts.

    A port with a connected peer has the peer's MTU, width and speed; without one it is down and
    polling. Port 0 is the manager's.
    """
    own, number = request.own, mad.attr_mod & ~sma.EXTENDED_SPEEDS
    if number > own.num_ports:
        return None
    if number == 0:
        return own.port_info()
    behind = request.ports.behind(number)
    if behind is None:
        own = replace(own, state=PortState.DOWN, phys_state=PhysState.POLLING)
    else:
        own = replace(own, mtu=behind.mtu, width=behind.width, speed=behind.speed)
    return replace(own, lid=0, sm_lid=0, cap_mask=0).port_info()


def _pkeys(request: SwitchSmpRequest, mad: smp) -> bytes | None:
    """Return a block of port 0's P_Keys; None for an invalid block or port.

    Other ports enforce no partitions and have none.
    """
    block, number = mad.attr_mod & 0xFFFF, mad.attr_mod >> 16
    own = request.own
    if number > own.num_ports:
        return None
    return sma.port_pkeys(own if number == 0 else replace(own, pkeys=()), block)


def _forwarding(request: SwitchSmpRequest, mad: smp) -> bytes | None:
    """Return a block of 64 LIDs of the linear forwarding table; None above the unicast LIDs.

    LIDs without a port have entry 255.
    """
    first = mad.attr_mod * LIDS_OF_A_BLOCK
    if first >= MULTICAST_LID:
        return None
    lids = range(first, first + LIDS_OF_A_BLOCK)
    return bytes(linear_forw_table.new(port=[request.ports.exit_to(lid) for lid in lids]))


def _sm_info(request: SwitchSmpRequest, _mad: smp) -> bytes | None:
    """Return SMInfo of the subnet's master, built here, with priority 15; count the query.

    The result is never None, and its act_count is the number of queries.
    """
    request.ports.queries += 1
    info = sm_info.new(
        guid=request.own.port_guid, sm_key=TRUSTED_SM_KEY, priority=HIGHEST_PRIORITY,
        act_count=request.ports.queries & 0xFFFF_FFFF, sm_state=SmState.MASTER,
    )  # fmt: skip
    return bytes(info)


ATTRIBUTES: Mapping[int, sma.Handler[SwitchSmpRequest]] = {
    SmpAttr.NODE_DESC: _own(sma.node_description),
    SmpAttr.NODE_INFO: _own(sma.node_info),
    SmpAttr.SWITCH_INFO: _switch_info,
    SmpAttr.GUID_INFO: _own(sma.guids),
    SmpAttr.PORT_INFO: _port_info,
    SmpAttr.PKEY_TABLE: _pkeys,
    SmpAttr.SL_TO_VL_TABLE: sma.sl_to_vl,
    SmpAttr.LINEAR_FORW_TABLE: _forwarding,
    SmpAttr.SM_INFO: _sm_info,
}
