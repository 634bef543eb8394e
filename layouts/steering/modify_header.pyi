# Written by scripts/gen-view-types from modify_header.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items
from layouts.prm import Prm

class SetActionIn(View):
    action_type: int
    field: int
    offset: int
    length: int
    data: int

set_action_in: Prm[SetActionIn]

class AddActionIn(View):
    action_type: int
    field: int
    data: int

add_action_in: Prm[AddActionIn]

class CopyActionIn(View):
    action_type: int
    src_field: int
    src_offset: int
    length: int
    dst_field: int
    dst_offset: int

copy_action_in: Prm[CopyActionIn]

class AllocModifyHeaderContextIn(View):
    opcode: int
    op_mod: int
    table_type: int
    num_of_actions: int
    actions: Items[bytes]

alloc_modify_header_context_in: Prm[AllocModifyHeaderContextIn]

class AllocModifyHeaderContextOut(View):
    status: int
    syndrome: int
    modify_header_id: int

alloc_modify_header_context_out: Prm[AllocModifyHeaderContextOut]

class DeallocModifyHeaderContextIn(View):
    opcode: int
    op_mod: int
    modify_header_id: int

dealloc_modify_header_context_in: Prm[DeallocModifyHeaderContextIn]

class DeallocModifyHeaderContextOut(View):
    status: int
    syndrome: int

dealloc_modify_header_context_out: Prm[DeallocModifyHeaderContextOut]
