"""UDP ports on which the adapter parses VXLAN tunnels (PRM "ADD_VXLAN_UDP_DPORT").

The driver adds the ports of the kernel's udp_tunnel_nic (core/lib/vxlan.c). VXLAN's own port is
always present; adding a port twice is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from layouts.enums.cmd import Op, Status
from layouts.steering import vxlan as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.tables import ObjectTables


def _check(caps: Caps) -> None:
    if not caps.ethernet.tunnel_stateless_vxlan:
        raise CmdError(Status.BAD_OP_ERR, "VXLAN is not offloaded")


@command(Op.ADD_VXLAN_UDP_DPORT, privileged=True)
def add_vxlan_udp_dport(
    tables: ObjectTables, cmd: layout.add_vxlan_udp_dport_in, out: layout.add_vxlan_udp_dport_out
) -> None:
    """Parse VXLAN on one more port, up to ``max_vxlan_udp_ports``.

    Refuse one more with LIM_ERR, and the command with BAD_OP_ERR if VXLAN is not offloaded. Cached
    flow decisions are dropped.
    """
    _check(tables.caps)
    ports = tables.parser.vxlan_ports | {cmd.vxlan_udp_port}
    if len(ports) > tables.caps.ethernet.max_vxlan_udp_ports:
        raise CmdError(Status.LIM_ERR, "no more VXLAN ports", f"{cmd.vxlan_udp_port}")
    tables.parse_vxlan(ports)


@command(Op.DELETE_VXLAN_UDP_DPORT, privileged=True)
def delete_vxlan_udp_dport(
    tables: ObjectTables,
    cmd: layout.delete_vxlan_udp_dport_in,
    out: layout.delete_vxlan_udp_dport_out,
) -> None:
    """Stop parsing VXLAN on a port.

    Refuse an unknown port with BAD_PARAM_ERR, and the command with BAD_OP_ERR if VXLAN is not
    offloaded.
    """
    _check(tables.caps)
    if cmd.vxlan_udp_port not in tables.parser.vxlan_ports:
        raise BadParamError("no such VXLAN port", f"{cmd.vxlan_udp_port}")
    tables.parse_vxlan(tables.parser.vxlan_ports - {cmd.vxlan_udp_port})
