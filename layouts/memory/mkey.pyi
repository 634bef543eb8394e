# Written by scripts/gen-view-types from mkey.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm

class Mkc(View):
    free: int
    access_mode_4_2: int
    relaxed_ordering_write: int
    small_fence_on_rdma_read_response: int
    umr_en: int
    a: int
    rw: int
    rr: int
    lw: int
    lr: int
    access_mode_1_0: int
    ma_translation_mode: int
    qpn: int
    mkey_7_0: int
    length64: int
    bsf_en: int
    sync_umr: int
    expected_sigerr_count: int
    en_rinval: int
    pd: int
    start_addr: int
    len: int
    bsf_octword_size: int
    crossing_target_vhca_id: int
    translations_octword_size: int
    relaxed_ordering_read: int
    log_page_size: int
    crypto_en: int

mkc: Prm[Mkc]

class CreateMkeyIn(View):
    opcode: int
    uid: int
    op_mod: int
    pg_access: int
    mkey_umem_valid: int
    data_direct: int
    memory_key_mkey_entry: Nested[Mkc]
    translations_octword_actual_size: int
    mkey_umem_id: int
    mkey_umem_offset: int
    bsf_octword_actual_size: int
    klm_pas_mtt: Items[int]

create_mkey_in: Prm[CreateMkeyIn]

class CreateMkeyOut(View):
    status: int
    syndrome: int
    mkey_index: int

create_mkey_out: Prm[CreateMkeyOut]

class QueryMkeyIn(View):
    opcode: int
    op_mod: int
    mkey_index: int
    pg_access: int

query_mkey_in: Prm[QueryMkeyIn]

class QueryMkeyOut(View):
    status: int
    syndrome: int
    memory_key_mkey_entry: Nested[Mkc]
    bsf0_klm0_pas_mtt0_1: Octets
    bsf1_klm1_pas_mtt2_3: Octets

query_mkey_out: Prm[QueryMkeyOut]

class DestroyMkeyIn(View):
    opcode: int
    uid: int
    op_mod: int
    mkey_index: int

destroy_mkey_in: Prm[DestroyMkeyIn]

class DestroyMkeyOut(View):
    status: int
    syndrome: int

destroy_mkey_out: Prm[DestroyMkeyOut]

class CreatePsvIn(View):
    opcode: int
    op_mod: int
    num_psv: int
    pd: int

create_psv_in: Prm[CreatePsvIn]

class CreatePsvOut(View):
    status: int
    syndrome: int
    psv0_index: int
    psv1_index: int
    psv2_index: int
    psv3_index: int

create_psv_out: Prm[CreatePsvOut]

class DestroyPsvIn(View):
    opcode: int
    op_mod: int
    psvn: int

destroy_psv_in: Prm[DestroyPsvIn]

class DestroyPsvOut(View):
    status: int
    syndrome: int

destroy_psv_out: Prm[DestroyPsvOut]
