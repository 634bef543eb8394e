# Written by scripts/gen-view-types from general_object.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items
from layouts.prm import Prm

class CreateGeneralObjectIn(View):
    opcode: int
    uid: int
    op_mod: int
    log_obj_range: int
    object: Items[bytes]

create_general_object_in: Prm[CreateGeneralObjectIn]

class CreateGeneralObjectOut(View):
    status: int
    syndrome: int
    obj_id: int

create_general_object_out: Prm[CreateGeneralObjectOut]

class ModifyGeneralObjectIn(View):
    opcode: int
    uid: int
    op_mod: int
    obj_id: int
    object: Items[bytes]

modify_general_object_in: Prm[ModifyGeneralObjectIn]

class ModifyGeneralObjectOut(View):
    status: int
    syndrome: int

modify_general_object_out: Prm[ModifyGeneralObjectOut]

class QueryGeneralObjectIn(View):
    opcode: int
    uid: int
    op_mod: int
    obj_id: int

query_general_object_in: Prm[QueryGeneralObjectIn]

class QueryGeneralObjectOut(View):
    status: int
    syndrome: int
    obj_id: int
    object: Items[bytes]

query_general_object_out: Prm[QueryGeneralObjectOut]

class DestroyGeneralObjectIn(View):
    opcode: int
    uid: int
    op_mod: int
    obj_id: int

destroy_general_object_in: Prm[DestroyGeneralObjectIn]

class DestroyGeneralObjectOut(View):
    status: int
    syndrome: int

destroy_general_object_out: Prm[DestroyGeneralObjectOut]
