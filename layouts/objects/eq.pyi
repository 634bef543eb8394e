# Written by scripts/gen-view-types from eq.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested
from layouts.prm import Prm

class Eqc(View):
    status: int
    ec: int
    oi: int
    st: int
    page_offset: int
    log_eq_size: int
    uar_page: int
    intr: int
    log_page_size: int
    consumer_counter: int
    producer_counter: int

eqc: Prm[Eqc]

class CreateEqIn(View):
    opcode: int
    uid: int
    op_mod: int
    eq_context_entry: Nested[Eqc]
    event_bitmask: Items[int]
    pas: Items[int]

create_eq_in: Prm[CreateEqIn]

class CreateEqOut(View):
    status: int
    syndrome: int
    eq_number: int

create_eq_out: Prm[CreateEqOut]

class QueryEqIn(View):
    opcode: int
    op_mod: int
    eq_number: int

query_eq_in: Prm[QueryEqIn]

class QueryEqOut(View):
    status: int
    syndrome: int
    eq_context_entry: Nested[Eqc]
    event_bitmask: int
    pas: Items[int]

query_eq_out: Prm[QueryEqOut]

class DestroyEqIn(View):
    opcode: int
    op_mod: int
    eq_number: int

destroy_eq_in: Prm[DestroyEqIn]

class DestroyEqOut(View):
    status: int
    syndrome: int

destroy_eq_out: Prm[DestroyEqOut]

class ConfigIntModerationIn(View):
    opcode: int
    op_mod: int
    min_delay: int
    int_vector: int

config_int_moderation_in: Prm[ConfigIntModerationIn]

class ConfigIntModerationOut(View):
    status: int
    syndrome: int
    min_delay: int
    int_vector: int

config_int_moderation_out: Prm[ConfigIntModerationOut]
