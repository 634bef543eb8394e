# Written by scripts/gen-view-types from roce.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class RoceAddrLayout(View):
    source_l3_address: Octets
    vlan_valid: int
    vlan_id: int
    source_mac_47_32: int
    source_mac_31_0: int
    roce_l3_type: int
    roce_version: int

roce_addr_layout: Prm[RoceAddrLayout]

class SetRoceAddressIn(View):
    opcode: int
    op_mod: int
    roce_address_index: int
    vhca_port_num: int
    roce_address: Nested[RoceAddrLayout]

set_roce_address_in: Prm[SetRoceAddressIn]

class SetRoceAddressOut(View):
    status: int
    syndrome: int

set_roce_address_out: Prm[SetRoceAddressOut]

class QueryRoceAddressIn(View):
    opcode: int
    op_mod: int
    roce_address_index: int
    vhca_port_num: int

query_roce_address_in: Prm[QueryRoceAddressIn]

class QueryRoceAddressOut(View):
    status: int
    syndrome: int
    roce_address: Nested[RoceAddrLayout]

query_roce_address_out: Prm[QueryRoceAddressOut]
