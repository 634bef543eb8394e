# Written by scripts/gen-view-types from odp.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

class TransPageFaultInfo(View):
    error: int
    page_fault_type: int
    wq_number: int
    fault_token: int

trans_page_fault_info: Prm[TransPageFaultInfo]

class MemPageFaultInfo(View):
    error: int
    fault_token_47_32: int
    fault_token_31_0: int

mem_page_fault_info: Prm[MemPageFaultInfo]

class PageFaultResumeIn(View):
    opcode: int
    op_mod: int
    page_fault_info: Octets

page_fault_resume_in: Prm[PageFaultResumeIn]

class PageFaultResumeOut(View):
    status: int
    syndrome: int

page_fault_resume_out: Prm[PageFaultResumeOut]
