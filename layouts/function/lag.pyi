# Written by scripts/gen-view-types from lag.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Nested
from layouts.prm import Prm

class Lagc(View):
    fdb_selection_mode: int
    port_select_mode: int
    lag_state: int
    active_port: int
    tx_remap_affinity_2: int
    tx_remap_affinity_1: int

lagc: Prm[Lagc]

class QueryLagIn(View):
    opcode: int
    op_mod: int

query_lag_in: Prm[QueryLagIn]

class QueryLagOut(View):
    status: int
    syndrome: int
    ctx: Nested[Lagc]

query_lag_out: Prm[QueryLagOut]
