# Written by scripts/gen-view-types from uar.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class AllocUarIn(View):
    opcode: int
    uid: int
    op_mod: int

alloc_uar_in: Prm[AllocUarIn]

class AllocUarOut(View):
    status: int
    syndrome: int
    uar: int

alloc_uar_out: Prm[AllocUarOut]

class DeallocUarIn(View):
    opcode: int
    uid: int
    op_mod: int
    uar: int

dealloc_uar_in: Prm[DeallocUarIn]

class DeallocUarOut(View):
    status: int
    syndrome: int

dealloc_uar_out: Prm[DeallocUarOut]
