# Written by scripts/gen-view-types from rqt.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class RqNum(View):
    rq_num: int

rq_num: Prm[RqNum]

class Rqtc(View):
    list_q_type: int
    rqt_max_size: int
    rq_vhca_id_format: int
    rqt_actual_size: int
    rq_num: Items[RqNum]

rqtc: Prm[Rqtc]

class CreateRqtIn(View):
    opcode: int
    uid: int
    op_mod: int
    rqt_context: Nested[Rqtc]

create_rqt_in: Prm[CreateRqtIn]

class CreateRqtOut(View):
    status: int
    syndrome: int
    rqtn: int

create_rqt_out: Prm[CreateRqtOut]

class RqtBitmask(View):
    rqn_list: int

rqt_bitmask: Prm[RqtBitmask]

class ModifyRqtIn(View):
    opcode: int
    uid: int
    op_mod: int
    rqtn: int
    bitmask: Nested[RqtBitmask]
    ctx: Nested[Rqtc]

modify_rqt_in: Prm[ModifyRqtIn]

class ModifyRqtOut(View):
    status: int
    syndrome: int

modify_rqt_out: Prm[ModifyRqtOut]

class QueryRqtIn(View):
    opcode: int
    op_mod: int
    rqtn: int

query_rqt_in: Prm[QueryRqtIn]

class QueryRqtOut(View):
    status: int
    syndrome: int
    rqt_context: Nested[Rqtc]

query_rqt_out: Prm[QueryRqtOut]

class DestroyRqtIn(View):
    opcode: int
    uid: int
    op_mod: int
    rqtn: int

destroy_rqt_in: Prm[DestroyRqtIn]

class DestroyRqtOut(View):
    status: int
    syndrome: int

destroy_rqt_out: Prm[DestroyRqtOut]
