# Written by scripts/gen-view-types from pages.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items
from layouts.prm import Prm

class QueryPagesIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int

query_pages_in: Prm[QueryPagesIn]

class QueryPagesOut(View):
    status: int
    syndrome: int
    embedded_cpu_function: int
    function_id: int
    num_pages: int

query_pages_out: Prm[QueryPagesOut]

class ManagePagesIn(View):
    opcode: int
    op_mod: int
    embedded_cpu_function: int
    function_id: int
    input_num_entries: int
    pas: Items[int]

manage_pages_in: Prm[ManagePagesIn]

class ManagePagesOut(View):
    status: int
    syndrome: int
    output_num_entries: int
    pas: Items[int]

manage_pages_out: Prm[ManagePagesOut]
