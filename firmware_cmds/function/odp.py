"""PAGE_FAULT_RESUME: the driver has dealt with a page fault (PRM "On-demand paging"; hw/odp.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import OpenField, command
from emu.device.engine.mr import page_faults
from layouts.enums import Op
from layouts.function import odp as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_INFO: Final = layout.page_fault_resume_in.packer("page_fault_info")


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
    given: bytes
    (given,) = _INFO.unpack_from(cmd.buf)
    if hca.caps.is_memory_scheme:
        memory = layout.mem_page_fault_info(given)
        token = memory.fault_token_47_32 << 32 | memory.fault_token_31_0
        page_faults.resume(hca, token, bool(memory.error))
    else:
        info = layout.trans_page_fault_info(given)
        named = info.page_fault_type, info.wq_number
        page_faults.resume(hca, info.fault_token, bool(info.error), named)
