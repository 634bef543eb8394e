"""Firmware pages: QUERY_PAGES, MANAGE_PAGES (PRM "ICM memory"; core/pagealloc.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.errors import CmdError
from emu.ports import DmaError
from emu.registry import HcaState, command
from firmware_cmds.hca import check_own
from layouts import pages as layout
from layouts.enums import BootPages, Op, PageOp, Status

if TYPE_CHECKING:
    from emu.hca import Hca

PAGE = 4096


@command(Op.QUERY_PAGES, layout.query_pages_in, layout.query_pages_out, needs=HcaState.ENABLED)
def query_pages(hca: Hca, cmd: Any, out: Any) -> None:
    """How many pages the device wants at this moment of its start-up; 0 needs no MANAGE_PAGES."""
    check_own(cmd.function_id)
    if cmd.op_mod not in (BootPages.BOOT, BootPages.INIT, BootPages.REGULAR):
        raise CmdError(Status.BAD_PARAM_ERR, "unknown QUERY_PAGES op_mod", f"{cmd.op_mod}")
    out.num_pages = hca.fwpages.boot_pages if cmd.op_mod != BootPages.REGULAR else 0


@command(Op.MANAGE_PAGES, layout.manage_pages_in, layout.manage_pages_out, needs=HcaState.ENABLED)
def manage_pages(hca: Hca, cmd: Any, out: Any) -> None:
    """The driver gives pages, takes them back, or says that it cannot give."""
    check_own(cmd.function_id)
    if cmd.op_mod == PageOp.GIVE:
        _give(hca, cmd)
    elif cmd.op_mod == PageOp.TAKE:
        pages = hca.fwpages.take(min(cmd.input_num_entries, len(out.pas)))
        for index, page in enumerate(pages):
            out.pas[index] = page
        out.output_num_entries = len(pages)
    elif cmd.op_mod != PageOp.CANT_GIVE:
        raise CmdError(Status.BAD_PARAM_ERR, "unknown MANAGE_PAGES op_mod", f"{cmd.op_mod}")


def _give(hca: Hca, cmd: Any) -> None:
    count = cmd.input_num_entries
    if count > len(cmd.pas):
        raise CmdError(Status.BAD_INP_LEN_ERR, "fewer pages than announced", f"{count}")
    pages = [cmd.pas[index] for index in range(count)]
    if len(set(pages)) != count or any(map(hca.fwpages.holds, pages)):
        raise CmdError(Status.BAD_PARAM_ERR, "page given twice")
    for page in pages:
        if page % PAGE:
            raise CmdError(Status.BAD_PARAM_ERR, "page address not aligned", f"{page:#x}")
        try:
            hca.memory.segments(page, PAGE)
        except DmaError as error:
            raise CmdError(Status.BAD_PARAM_ERR, "page is not guest memory", str(error)) from None
    hca.fwpages.give(pages)
