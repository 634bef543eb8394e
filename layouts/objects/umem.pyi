# Written by scripts/gen-view-types from umem.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class Uctx(View):
    cap: int

uctx: Prm[Uctx]

class CreateUctxIn(View):
    opcode: int
    op_mod: int
    uctx: Nested[Uctx]

create_uctx_in: Prm[CreateUctxIn]

class CreateUctxOut(View):
    status: int
    syndrome: int
    uid: int

create_uctx_out: Prm[CreateUctxOut]

class DestroyUctxIn(View):
    opcode: int
    op_mod: int
    uid: int

destroy_uctx_in: Prm[DestroyUctxIn]

class DestroyUctxOut(View):
    status: int
    syndrome: int

destroy_uctx_out: Prm[DestroyUctxOut]

class Umem(View):
    ats: int
    log_page_size: int
    page_offset: int
    num_of_mtt: int
    mtt: Items[int]

umem: Prm[Umem]

class CreateUmemIn(View):
    opcode: int
    uid: int
    op_mod: int
    umem: Nested[Umem]

create_umem_in: Prm[CreateUmemIn]

class CreateUmemOut(View):
    status: int
    syndrome: int
    umem_id: int

create_umem_out: Prm[CreateUmemOut]

class DestroyUmemIn(View):
    opcode: int
    uid: int
    op_mod: int
    umem_id: int

destroy_umem_in: Prm[DestroyUmemIn]

class DestroyUmemOut(View):
    status: int
    syndrome: int

destroy_umem_out: Prm[DestroyUmemOut]
