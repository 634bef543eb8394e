"""Bring-up and removal of a function, in the order of core/main.c, and its firmware pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from emu.driver.command.answer import expect
from emu.driver.command.events import EventQueues
from emu.driver.command.words import pack64
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import BootPages, PageOp
from layouts.enums.regs import RegId
from layouts.function import caps

if TYPE_CHECKING:
    from layouts.function.caps import cmd_hca_cap

NAME = b"mlx5emu,emu.driver"
"""Name of this driver in SET_DRIVER_VERSION."""

_CURRENT = CapMode.CUR
_UAR_BYTES = 4096
_PAGES_AT_ONCE = 64


class BringUp(EventQueues):
    """Brings a function up and down."""

    caps: cmd_hca_cap
    """General capabilities that the probe has set."""

    def probe(self, *, is_vf: bool = False, **requested: int) -> Self:
        """Run all commands up to INIT_HCA and allocate a UAR page.

        Raises DriverCommandError, DriverError. ``requested`` are the general capabilities to set.
        Return the driver itself. ``is_vf`` leaves out the register HOST_ENDIANNESS. No event queue
        is created.
        """
        self.attach()
        self.must(Op.ENABLE_HCA)
        self.must(Op.QUERY_ISSI)
        self.must(Op.SET_ISSI, current_issi=1)
        self.give_pages(self.must(Op.QUERY_PAGES, op_mod=BootPages.BOOT).num_pages)
        if not is_vf:
            answer = self.write_register(RegId.HOST_ENDIANNESS, b"\x80" + bytes(15))
            expect(answer.status == Status.OK, f"HOST_ENDIANNESS: {answer.status!r}")
        page = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=_CURRENT).capability)
        self.caps = caps.cmd_hca_cap.view(page)
        self.caps.cmdif_checksum = 0
        self.caps.pkey_table_size = 0
        for name, value in requested.items():
            setattr(self.caps, name, value)
        self.must(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page))
        if self.caps.pg:
            self.choose_paging()
        self.give_pages(self.must(Op.QUERY_PAGES, op_mod=BootPages.INIT).num_pages)
        self.must(Op.INIT_HCA)
        if self.caps.driver_version:
            self.must(Op.SET_DRIVER_VERSION, driver_version=NAME.ljust(64, b"\0"))
        self.must(Op.QUERY_ADAPTER)
        # A UAR number counts 4 KiB, or pages of the driver (core/uar.c: uar2pfn).
        self.uar_bytes = _UAR_BYTES << (0 if self.caps.uar_4k else self.caps.log_uar_page_sz)
        self.uar = self.must(Op.ALLOC_UAR).uar
        return self

    def choose_paging(self) -> None:
        """Choose the memory scheme if the device has it, else request all paging capabilities.

        Raises DriverCommandError if refused.
        """
        group = CapType.ODP << 1
        maximum = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=group).capability)
        chosen = bytearray(self.must(Op.QUERY_HCA_CAP, op_mod=group | _CURRENT).capability)
        if caps.odp_cap.view(maximum).mem_page_fault:
            caps.odp_cap.view(chosen).mem_page_fault = 1
        else:
            chosen[:] = maximum
        self.must(Op.SET_HCA_CAP, op_mod=group, capability=bytes(chosen))

    def remove(self) -> None:
        """Undo the probe, down to DISABLE_HCA; the caller has destroyed all other objects.

        Its event queues are destroyed here. Raises DriverCommandError at the first refused command.
        """
        for eqn in reversed(list(self.eqs)):
            self.destroy_eq(eqn)
        self.must(Op.DEALLOC_UAR, uar=self.uar)
        self.must(Op.TEARDOWN_HCA)
        self.take_pages()
        self.must(Op.DISABLE_HCA)

    def give_pages(self, count: int) -> None:
        """Give the device ``count`` new pages by MANAGE_PAGES; do nothing for 0.

        Raises DriverCommandError if refused.
        """
        if count:
            addresses = [self.memory.alloc(4096) for _ in range(count)]
            self.must(
                Op.MANAGE_PAGES, op_mod=PageOp.GIVE, input_num_entries=count,
                extra=pack64(addresses),
            )  # fmt: skip

    def take_pages(self) -> int:
        """Take all pages back by MANAGE_PAGES; return their number.

        The pages' memory is not freed. Raises DriverCommandError if refused.
        """
        pages = 0
        while True:
            answer = self.must(
                Op.MANAGE_PAGES, op_mod=PageOp.TAKE, input_num_entries=_PAGES_AT_ONCE,
                out_extra=8 * _PAGES_AT_ONCE,
            )  # fmt: skip
            if not answer.output_num_entries:
                return pages
            pages += answer.output_num_entries
