# Written by scripts/gen-view-types from icmd.py; a test fails when it is stale.

from layouts.codec import View
from layouts.prm import Prm

class OperationTlv(View):
    type: int
    len: int
    dr: int
    status: int
    register_id: int
    r: int
    method: int
    tid: int

operation_tlv: Prm[OperationTlv]

class RegTlv(View):
    type: int
    len: int

reg_tlv: Prm[RegTlv]

class IcmdQueryCapGeneral(View):
    allow_icmd_access_reg_on_all_registers: int
    pcam_reg: int
    mcam_reg: int

icmd_query_cap_general: Prm[IcmdQueryCapGeneral]
