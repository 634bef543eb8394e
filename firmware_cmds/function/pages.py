"""Firmware pages: QUERY_PAGES, MANAGE_PAGES (PRM "ICM memory"; core/pagealloc.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.pages import check_pages
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import PAGES_PER_PORTION
from emu.device.state.fwpages import MAX_PAGES, FirmwarePages
from emu.device.state.hca import HcaState
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import BootPages, PageOp
from layouts.function import pages as layout

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca

PAGE = 4096


@command(Op.QUERY_PAGES, needs=HcaState.ENABLED, privileged=True)
def query_pages(hca: Hca, cmd: layout.query_pages_in, out: layout.query_pages_out) -> None:
    """Return the number of pages that the device wants; at 0 the driver sends no MANAGE_PAGES.

    For boot and init the same number, for regular 0; another op_mod gets BAD_PARAM_ERR. A virtual
    function wants none of its own driver.
    """
    if cmd.op_mod not in (BootPages.BOOT, BootPages.INIT, BootPages.REGULAR):
        raise BadParamError("unknown QUERY_PAGES op_mod", f"{cmd.op_mod}")
    is_asked = cmd.op_mod != BootPages.REGULAR and not hca.vhca.is_virtual
    out.num_pages = hca.fwpages.boot_pages if is_asked else 0


@command(Op.MANAGE_PAGES, needs=HcaState.ENABLED, privileged=True, of_others=True)
def manage_pages(
    hca: Hca, cmd: layout.manage_pages_in, out: layout.manage_pages_out
) -> Portions[None]:
    """Take pages from the driver, return them, or record that the driver has none.

    The manager gives and takes the pages of its virtual functions; those in use are not returned.
    Refuse with BAD_PARAM_ERR another op_mod, a page outside guest memory or one given twice. A
    short list gets BAD_INP_LEN_ERR, more than MAX_PAGES LIM_ERR, and pages for a virtual function
    that is disabled BAD_RES_STATE_ERR.
    """
    giver = hca.managed_by if cmd.function_id else hca
    held = giver.fwpages.of(cmd.function_id)
    if cmd.op_mod == PageOp.GIVE:
        yield from _take_pages(giver, hca, held, cmd)
    elif cmd.op_mod == PageOp.TAKE:
        pages = held.reclaim(min(cmd.input_num_entries, len(out.pas), held.surplus))
        out.pas.put_words(pages)
        out.output_num_entries = len(pages)
    elif cmd.op_mod == PageOp.CANT_GIVE:
        held.refuse()
    else:
        raise BadParamError("unknown MANAGE_PAGES op_mod", f"{cmd.op_mod}")


def _take_pages(
    giver: Hca, hca: Hca, held: FirmwarePages, cmd: layout.manage_pages_in
) -> Portions[None]:
    """Add the pages of the command to those ``held`` for ``hca``, all or none.

    Raises BAD_INP_LEN_ERR for a short list, LIM_ERR above MAX_PAGES. Raises BAD_PARAM_ERR for a
    page that is not memory of ``giver`` or was given before, for any function. Raises
    BAD_RES_STATE_ERR for a disabled function: its driver has given too late and keeps the pages
    (core/pagealloc.c: give_pages).
    """
    _check_enabled(hca.vhca)
    count = cmd.input_num_entries
    if count > len(cmd.pas):
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for its list of pages", f"{count}"
        )
    _check_space(held, count)
    pages = cmd.pas.words(count)
    yield from check_pages(giver.memory, pages, PAGE, count * PAGE)
    different: dict[int, None] = {}
    for first in range(0, count, PAGES_PER_PORTION):
        different.update(dict.fromkeys(pages[first : first + PAGES_PER_PORTION]))
        yield
    if len(different) != count:
        raise BadParamError("page address appears twice")
    compared, seen = 0, -1
    while seen != giver.fwpages.accepted:  # a short command may give pages between two portions
        seen = giver.fwpages.accepted
        for given in (giver.fwpages, *giver.fwpages.virtual.values()):
            if compared >= PAGES_PER_PORTION:
                compared = 0
                yield
            if given.holds_any(different):
                raise BadParamError("page address appears twice")
            compared += count
    _check_enabled(hca.vhca)
    _check_space(held, count)  # other commands may have used it up
    held.accept(different)
    giver.fwpages.accepted += 1


def _check_space(held: FirmwarePages, count: int) -> None:
    """Raise LIM_ERR if ``count`` more pages would exceed MAX_PAGES."""
    if len(held) + count > MAX_PAGES:
        raise CmdError(Status.LIM_ERR, "more pages than firmware takes", f"{count}")


def _check_enabled(vhca: Vhca[Hca]) -> None:
    """Raise BAD_RES_STATE_ERR for a virtual function that is disabled."""
    if not vhca.may_begin:
        raise CmdError(Status.BAD_RES_STATE_ERR, "pages for a function that is disabled")
