# Written by scripts/gen-view-types from vxlan.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class AddVxlanUdpDportIn(View):
    opcode: int
    op_mod: int
    vxlan_udp_port: int

add_vxlan_udp_dport_in: Prm[AddVxlanUdpDportIn]

class AddVxlanUdpDportOut(View):
    status: int
    syndrome: int

add_vxlan_udp_dport_out: Prm[AddVxlanUdpDportOut]

class DeleteVxlanUdpDportIn(View):
    opcode: int
    op_mod: int
    vxlan_udp_port: int

delete_vxlan_udp_dport_in: Prm[DeleteVxlanUdpDportIn]

class DeleteVxlanUdpDportOut(View):
    status: int
    syndrome: int

delete_vxlan_udp_dport_out: Prm[DeleteVxlanUdpDportOut]
