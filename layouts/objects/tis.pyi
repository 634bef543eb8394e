# Written by scripts/gen-view-types from tis.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class Tisc(View):
    strict_lag_tx_port_affinity: int
    tls_en: int
    lag_tx_port_affinity: int
    prio: int
    transport_domain: int
    underlay_qpn: int
    pd: int

tisc: Prm[Tisc]

class CreateTisIn(View):
    opcode: int
    uid: int
    op_mod: int
    ctx: Nested[Tisc]

create_tis_in: Prm[CreateTisIn]

class CreateTisOut(View):
    status: int
    syndrome: int
    tisn: int

create_tis_out: Prm[CreateTisOut]

class ModifyTisBitmask(View):
    lag_tx_port_affinity: int
    strict_lag_tx_port_affinity: int
    prio: int

modify_tis_bitmask: Prm[ModifyTisBitmask]

class ModifyTisIn(View):
    opcode: int
    uid: int
    op_mod: int
    tisn: int
    bitmask: Nested[ModifyTisBitmask]
    ctx: Nested[Tisc]

modify_tis_in: Prm[ModifyTisIn]

class ModifyTisOut(View):
    status: int
    syndrome: int

modify_tis_out: Prm[ModifyTisOut]

class QueryTisIn(View):
    opcode: int
    op_mod: int
    tisn: int

query_tis_in: Prm[QueryTisIn]

class QueryTisOut(View):
    status: int
    syndrome: int
    tis_context: Nested[Tisc]

query_tis_out: Prm[QueryTisOut]

class DestroyTisIn(View):
    opcode: int
    uid: int
    op_mod: int
    tisn: int

destroy_tis_in: Prm[DestroyTisIn]

class DestroyTisOut(View):
    status: int
    syndrome: int

destroy_tis_out: Prm[DestroyTisOut]
