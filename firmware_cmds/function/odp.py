"""PAGE_FAULT_RESUME: the driver has dealt with a page fault (PRM "On-demand paging"; hw/odp.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import OpenField, command
from emu.device.engine.mr import page_faults
from layouts.enums.cmd import Op
from layouts.function import odp as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_INFO: Final = layout.page_fault_resume_in.packer("page_fault_info")
_MEMORY: Final = layout.mem_page_fault_info
_MEMORY_ERROR: Final = 1 << _MEMORY.place("error")[0]
_MEMORY_TOKEN_AT, _MEMORY_TOKEN = _MEMORY.place("fault_token_47_32", "fault_token_31_0")
_TRANSPORT: Final = layout.trans_page_fault_info
_ERROR: Final = 1 << _TRANSPORT.place("error")[0]
_TOKEN_AT, _TOKEN = _TRANSPORT.place("fault_token")
_TYPE_AT, _TYPE = _TRANSPORT.place("page_fault_type")
_NUMBER_AT, _NUMBER = _TRANSPORT.place("wq_number")


@command(
    Op.PAGE_FAULT_RESUME,
    opened=OpenField("page_fault_info", lambda cmd: layout.trans_page_fault_info),
    privileged=True,
)
def page_fault_resume(
    hca: Hca, cmd: layout.page_fault_resume_in, out: layout.page_fault_resume_out
) -> None:
    """Resume the work that waits for a page, or fail it when the driver reports an error.

    The command's form is that of the scheme that the driver has chosen (odp_cap.mem_page_fault). A
    token that is not open gets BAD_RES_ERR, a wrong type or queue BAD_PARAM_ERR. A page fault whose
    queue pair has stopped is ignored.
    """
    info = int.from_bytes(_INFO.unpack_from(cmd.buf)[0], "big")
    if hca.caps.is_memory_scheme:
        token, named = info >> _MEMORY_TOKEN_AT & _MEMORY_TOKEN, None
        is_refused = info & _MEMORY_ERROR != 0
    else:
        token = info >> _TOKEN_AT & _TOKEN
        named = info >> _TYPE_AT & _TYPE, info >> _NUMBER_AT & _NUMBER
        is_refused = info & _ERROR != 0
    page_faults.resume(hca.events, hca.page_faults, token, is_refused, named)
