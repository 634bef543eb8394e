# Written by scripts/gen-view-types from tir.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

class RxHashFieldSelect(View):
    l3_prot_type: int
    l4_prot_type: int
    selected_fields: int

rx_hash_field_select: Prm[RxHashFieldSelect]

class Tirc(View):
    disp_type: int
    tls_en: int
    lro_timeout_period_usecs: int
    packet_merge_mask: int
    lro_max_ip_payload_size: int
    inline_rqn: int
    rx_hash_symmetric: int
    tunneled_offload_en: int
    indirect_table: int
    rx_hash_fn: int
    self_lb_block: int
    transport_domain: int
    rx_hash_toeplitz_key: Octets
    rx_hash_field_selector_outer: Nested[RxHashFieldSelect]
    rx_hash_field_selector_inner: Nested[RxHashFieldSelect]

tirc: Prm[Tirc]

class CreateTirIn(View):
    opcode: int
    uid: int
    op_mod: int
    ctx: Nested[Tirc]

create_tir_in: Prm[CreateTirIn]

class CreateTirOut(View):
    status: int
    syndrome: int
    icm_address_39_32: int
    tirn: int
    icm_address_31_0: int

create_tir_out: Prm[CreateTirOut]

class ModifyTirBitmask(View):
    self_lb_en: int
    hash: int
    packet_merge: int

modify_tir_bitmask: Prm[ModifyTirBitmask]

class ModifyTirIn(View):
    opcode: int
    uid: int
    op_mod: int
    tirn: int
    bitmask: Nested[ModifyTirBitmask]
    ctx: Nested[Tirc]

modify_tir_in: Prm[ModifyTirIn]

class ModifyTirOut(View):
    status: int
    syndrome: int

modify_tir_out: Prm[ModifyTirOut]

class QueryTirIn(View):
    opcode: int
    op_mod: int
    tirn: int

query_tir_in: Prm[QueryTirIn]

class QueryTirOut(View):
    status: int
    syndrome: int
    tir_context: Nested[Tirc]

query_tir_out: Prm[QueryTirOut]

class DestroyTirIn(View):
    opcode: int
    uid: int
    op_mod: int
    tirn: int

destroy_tir_in: Prm[DestroyTirIn]

class DestroyTirOut(View):
    status: int
    syndrome: int

destroy_tir_out: Prm[DestroyTirOut]
