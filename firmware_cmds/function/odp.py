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
_ERROR: Final = 1 << 63
_MEMORY_TOKEN: Final = (1 << 48) - 1
_TRANSPORT_TOKEN: Final = (1 << 24) - 1
_NUMBER: Final = (1 << 24) - 1
_NUMBER_AT: Final = 32
_TYPE_AT: Final = 56
_TYPE: Final = 7


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
    info = int.from_bytes(given, "big")
    is_refused = info & _ERROR != 0
    if hca.caps.is_memory_scheme:
        page_faults.resume(hca.events, hca.page_faults, info & _MEMORY_TOKEN, is_refused)
    else:
        named = info >> _TYPE_AT & _TYPE, info >> _NUMBER_AT & _NUMBER
        page_faults.resume(hca.events, hca.page_faults, info & _TRANSPORT_TOKEN, is_refused, named)
