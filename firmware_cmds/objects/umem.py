"""User contexts and user memory (PRM "User context", "User memory"; devx.c of mlx5_ib).

A process owns objects by a user context. The driver writes the context's number, the uid, into the
header of each command that it forwards for that process. User memory (umem) is a list of pages,
registered once and then named by number, because a process does not know the addresses of its
pages.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.domains import Uctx
from emu.device.objects.memory.pages import (
    ADAPTER_PAGE_SHIFT,
    DOORBELL_RECORD_BYTES,
    PageList,
    check_pages,
    check_record,
    low_bytes,
)
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE
from emu.device.objects.memory.umem import Umem
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import RIGHTS_PER_PORTION
from layouts.enums.cmd import Op, Status
from layouts.objects import umem as layout

if TYPE_CHECKING:
    from emu.device.objects.table import Table
    from emu.device.ports import GuestMemory
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables
    from layouts.objects.cq import cqc
    from layouts.objects.qp import qpc
    from layouts.objects.srq import wq

ENTRY_BYTES = 64
"""Size in bytes of the entries of rings: WQEBBs, CQEs."""

_LOW_BYTES = range(256)
_PRESENT = bytes(low for low in _LOW_BYTES if low & MTT_READ)
_WRITABLE = bytes(low for low in _LOW_BYTES if low & MTT_WRITE)
_WITHOUT_RIGHTS = bytes(low & ~(MTT_READ | MTT_WRITE) for low in _LOW_BYTES)
"""Table that clears the rights in a page entry's lowest byte.

A umem may have a million page entries, so their lowest bytes are checked together.
"""


@command(Op.CREATE_UCTX, privileged=True)
def create_uctx(
    tables: ObjectTables, cmd: layout.create_uctx_in, out: layout.create_uctx_out
) -> None:
    """Create a user context with the rights ``cap``, of those in the HCA's uctx_cap.

    Refuse another bit with BAD_PARAM_ERR.
    """
    if cmd.uctx.cap & ~tables.caps.general.uctx_cap:
        raise BadParamError("uctx_cap not supported", f"{cmd.uctx.cap:#x}")
    out.uid = tables.uctxs.add(Uctx(cmd.uctx.cap))


@command(Op.DESTROY_UCTX)
def destroy_uctx(
    tables: ObjectTables, cmd: layout.destroy_uctx_in, out: layout.destroy_uctx_out
) -> None:
    """Destroy the context; refused while it owns an object, because uids are reused."""
    tables.uctxs.subject(cmd.uid)
    if count := tables.caller.owned[cmd.uid]:
        raise CmdError(Status.BAD_RES_STATE_ERR, "user context still owns objects", f"{count}")
    tables.uctxs.remove(cmd.uid)


@command(Op.CREATE_UMEM)
def create_umem(
    hca: Hca, cmd: layout.create_umem_in, out: layout.create_umem_out
) -> Portions[None]:
    """Register pages with rights in their low bits; data starts at byte ``page_offset``.

    Refuse with BAD_INP_LEN_ERR a list shorter than num_of_mtt. Refuse with BAD_PARAM_ERR an empty
    umem, an offset beyond the first page, and a page without MTT_READ or outside guest memory.
    """
    given = cmd.umem
    shift = given.log_page_size + ADAPTER_PAGE_SHIFT
    if given.num_of_mtt > len(given.mtt):
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for its list", f"{given.num_of_mtt} pages"
        )
    if not given.num_of_mtt or given.page_offset >> shift:
        raise BadParamError("umem is empty, or its offset is beyond its first page")
    hca.umems.check_space()
    pages = given.mtt.words(given.num_of_mtt)
    is_writable = yield from _take_rights(pages)
    length = (len(pages) << shift) - given.page_offset
    yield from check_pages(hca.memory, pages, 1 << shift, len(pages) << shift)
    memory = PageList(hca.memory, pages, shift, given.page_offset, length)
    out.umem_id = hca.umems.add(Umem(memory, is_writable=is_writable))


def _take_rights(pages: array[int]) -> Portions[bool]:
    """Clear the rights in page entries; return whether all pages may be written.

    The entries change in place. Raises BAD_PARAM_ERR for one without MTT_READ, which is not
    present.
    """
    low = low_bytes(pages)
    is_writable = True
    for first in range(0, len(low), RIGHTS_PER_PORTION):
        if first:
            yield
        share = low[first : first + RIGHTS_PER_PORTION].tobytes()
        if share.translate(None, _PRESENT):
            raise BadParamError("umem page is not present")
        low[first : first + RIGHTS_PER_PORTION] = share.translate(_WITHOUT_RIGHTS)
        is_writable &= not share.translate(None, _WRITABLE)
    return is_writable


@command(Op.DESTROY_UMEM)
def destroy_umem(
    tables: ObjectTables, cmd: layout.destroy_umem_in, out: layout.destroy_umem_out
) -> None:
    """Deregister the memory; refused while a queue or a key uses it."""
    tables.umems.remove(cmd.umem_id)


def buffer_in(
    umems: Table[Umem],
    umem_id: int,
    offset: int,
    length: int,
    align: int = ENTRY_BYTES,
    *,
    is_written: bool = False,
) -> tuple[PageList, Umem]:
    """Return a queue's buffer in user memory, and its umem; entries do not cross pages.

    ``is_written`` means that the device writes there, for example into a CQ. The device only reads
    work queues and doorbell records, and libraries register the memory for these without write
    access (UCX: ib_mlx5.h:uct_ib_mlx5_md_buf_alloc).

    Raises BAD_RES_ERR for memory that the caller does not own. Raises BAD_PARAM_ERR for a buffer
    that leaves it or is not aligned to ``align``, or for a written buffer in read-only memory.
    """
    umem = umems.need(umem_id)
    if offset + length > umem.memory.length:
        raise BadParamError("buffer leaves its umem", f"{offset:#x}+{length:#x}")
    if is_written and not umem.is_writable:
        raise BadParamError("umem may not be written", f"{umem!r}")
    buffer = umem.memory.part(offset, length)
    if buffer.address(0) % align:
        raise BadParamError("buffer is not aligned in its umem", f"{offset:#x}")
    return buffer, umem


def record_in(
    umems: Table[Umem], memory: GuestMemory, ctx: cqc | qpc | wq, *, is_rounded: bool = False
) -> tuple[int, tuple[Umem, ...]]:
    """Return the address of a queue's doorbell record, and the umem that contains it.

    With ``dbr_umem_valid`` the context's ``dbr_addr`` is an offset in the umem.

    ``is_rounded``: the address may be that of any word of the record.

    The tuple is empty without dbr_umem_valid. Raises BAD_PARAM_ERR for a record that is not
    aligned, leaves its umem or is not guest memory; BAD_RES_ERR for an unknown umem.
    """
    address = ctx.dbr_addr
    if is_rounded:
        address -= address % DOORBELL_RECORD_BYTES
    holders: tuple[Umem, ...] = ()
    if ctx.dbr_umem_valid:
        size = DOORBELL_RECORD_BYTES
        buffer, umem = buffer_in(umems, ctx.dbr_umem_id, address, size, align=size)
        address, holders = buffer.address(0), (umem,)
    check_record(memory, address)
    return address, holders
