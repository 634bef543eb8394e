# Written by scripts/gen-view-types from pd.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class AllocPdIn(View):
    opcode: int
    uid: int
    op_mod: int

alloc_pd_in: Prm[AllocPdIn]

class AllocPdOut(View):
    status: int
    syndrome: int
    pd: int

alloc_pd_out: Prm[AllocPdOut]

class DeallocPdIn(View):
    opcode: int
    uid: int
    op_mod: int
    pd: int

dealloc_pd_in: Prm[DeallocPdIn]

class DeallocPdOut(View):
    status: int
    syndrome: int

dealloc_pd_out: Prm[DeallocPdOut]

class AllocXrcdIn(View):
    opcode: int
    uid: int
    op_mod: int

alloc_xrcd_in: Prm[AllocXrcdIn]

class AllocXrcdOut(View):
    status: int
    syndrome: int
    xrcd: int

alloc_xrcd_out: Prm[AllocXrcdOut]

class DeallocXrcdIn(View):
    opcode: int
    uid: int
    op_mod: int
    xrcd: int

dealloc_xrcd_in: Prm[DeallocXrcdIn]

class DeallocXrcdOut(View):
    status: int
    syndrome: int

dealloc_xrcd_out: Prm[DeallocXrcdOut]

class AllocTransportDomainIn(View):
    opcode: int
    uid: int
    op_mod: int

alloc_transport_domain_in: Prm[AllocTransportDomainIn]

class AllocTransportDomainOut(View):
    status: int
    syndrome: int
    transport_domain: int

alloc_transport_domain_out: Prm[AllocTransportDomainOut]

class DeallocTransportDomainIn(View):
    opcode: int
    uid: int
    op_mod: int
    transport_domain: int

dealloc_transport_domain_in: Prm[DeallocTransportDomainIn]

class DeallocTransportDomainOut(View):
    status: int
    syndrome: int

dealloc_transport_domain_out: Prm[DeallocTransportDomainOut]
