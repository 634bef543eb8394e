"""UDP ports behind which the adapter looks for VXLAN tunnels (PRM "ADD_VXLAN_UDP_DPORT").

The driver adds those that the kernel's udp_tunnel_nic tells it (core/lib/vxlan.c). VXLAN's own port
is there from the beginning; adding a port twice is no mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import CmdError
from layouts.enums import Op, Status
from layouts.steering import vxlan as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


def _check(hca: Hca) -> None:
    if not hca.caps.ethernet.tunnel_stateless_vxlan:
        raise CmdError(Status.BAD_OP_ERR, "VXLAN is not offloaded")


@command(
    Op.ADD_VXLAN_UDP_DPORT,
    layout.add_vxlan_udp_dport_in,
    layout.add_vxlan_udp_dport_out,
    privileged=True,
)
def add_vxlan_udp_dport(
    hca: Hca, cmd: layout.AddVxlanUdpDportIn, out: layout.AddVxlanUdpDportOut
) -> None:
    """Look for VXLAN behind one more port, ``max_vxlan_udp_ports`` at most."""
    _check(hca)
    ports = hca.parser.vxlan_ports | {cmd.vxlan_udp_port}
    if len(ports) > hca.caps.ethernet.max_vxlan_udp_ports:
        raise CmdError(Status.LIM_ERR, "no more VXLAN ports", f"{cmd.vxlan_udp_port}")
    hca.look_for_vxlan(ports)


@command(
    Op.DELETE_VXLAN_UDP_DPORT,
    layout.delete_vxlan_udp_dport_in,
    layout.delete_vxlan_udp_dport_out,
    privileged=True,
)
def delete_vxlan_udp_dport(
    hca: Hca, cmd: layout.DeleteVxlanUdpDportIn, out: layout.DeleteVxlanUdpDportOut
) -> None:
    """Look for VXLAN there no more."""
    _check(hca)
    if cmd.vxlan_udp_port not in hca.parser.vxlan_ports:
        raise CmdError(Status.BAD_PARAM_ERR, "no such VXLAN port", f"{cmd.vxlan_udp_port}")
    hca.look_for_vxlan(hca.parser.vxlan_ports - {cmd.vxlan_udp_port})
