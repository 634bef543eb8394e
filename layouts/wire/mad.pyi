# Written by scripts/gen-view-types from mad.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class MadIfcIn(View):
    opcode: int
    op_mod: int
    remote_lid: int
    plane_index: int
    port: int
    mad: Octets

mad_ifc_in: Prm[MadIfcIn]

class MadIfcOut(View):
    status: int
    syndrome: int
    response_mad_packet: Octets

mad_ifc_out: Prm[MadIfcOut]
