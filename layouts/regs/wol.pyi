# Written by scripts/gen-view-types from wol.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class QueryWolRolIn(View):
    opcode: int
    op_mod: int

query_wol_rol_in: Prm[QueryWolRolIn]

class QueryWolRolOut(View):
    status: int
    syndrome: int
    rol_mode: int
    wol_mode: int

query_wol_rol_out: Prm[QueryWolRolOut]

class SetWolRolIn(View):
    opcode: int
    op_mod: int
    rol_mode_valid: int
    wol_mode_valid: int
    rol_mode: int
    wol_mode: int

set_wol_rol_in: Prm[SetWolRolIn]

class SetWolRolOut(View):
    status: int
    syndrome: int

set_wol_rol_out: Prm[SetWolRolOut]
