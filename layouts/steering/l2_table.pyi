# Written by scripts/gen-view-types from l2_table.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.function.nic_vport import MacAddressLayout
from layouts.prm import Prm

class SetL2TableEntryIn(View):
    opcode: int
    op_mod: int
    table_index: int
    silent_mode_valid: int
    silent_mode: int
    vlan_valid: int
    vlan: int
    mac_address: Nested[MacAddressLayout]

set_l2_table_entry_in: Prm[SetL2TableEntryIn]

class SetL2TableEntryOut(View):
    status: int
    syndrome: int

set_l2_table_entry_out: Prm[SetL2TableEntryOut]

class QueryL2TableEntryIn(View):
    opcode: int
    op_mod: int
    table_index: int

query_l2_table_entry_in: Prm[QueryL2TableEntryIn]

class QueryL2TableEntryOut(View):
    status: int
    syndrome: int
    vlan_valid: int
    vlan: int
    mac_address: Nested[MacAddressLayout]

query_l2_table_entry_out: Prm[QueryL2TableEntryOut]

class DeleteL2TableEntryIn(View):
    opcode: int
    op_mod: int
    table_index: int

delete_l2_table_entry_in: Prm[DeleteL2TableEntryIn]

class DeleteL2TableEntryOut(View):
    status: int
    syndrome: int

delete_l2_table_entry_out: Prm[DeleteL2TableEntryOut]
