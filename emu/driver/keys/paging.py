"""On-demand paging of a driver: page-fault events, page-in and page-out, resumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from emu.driver.command.answer import expect
from emu.driver.command.words import pack64
from emu.driver.keys.fault_events import FaultEvent, fault_event
from emu.driver.keys.umr import MUST_NOT_BE_FREE, OFFSET, umr
from emu.driver.verbs.node import Node
from emu.driver.verbs.outcomes import good
from emu.driver.verbs.region import Region
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType, PageFaultSubtype
from layouts.function.odp import mem_page_fault_info, trans_page_fault_info

READ, WRITE, BOTH = 1, 2, 3
"""Rights of a page, in its translation."""
_BLOCK = 8
"""MTT entries that one UMR replaces: translations are updated in multiples of 64 bytes."""


class Pager:
    """Driver's handler of page faults; ``updater`` is the queue pair of its UMRs."""

    def __init__(self, node: Node, log_size: int = 6) -> None:
        """Create an EQ of ``1 << log_size`` entries."""
        self.node = node
        self.eqn = node.driver.create_eq(log_size=log_size, events=[EventType.PAGE_FAULT])
        node.driver.eqs[self.eqn].arm()
        self.updater = node.queue_pair()
        self.updater.init().to_rtr(node.lid, self.updater.qpn).to_rts()

    def faults(self) -> list[FaultEvent]:
        """Run the node; return the page-fault events since the last call.

        Raises DriverError for an event of another type.
        """
        self.node.settle()
        return [fault_event(entry) for entry in self.node.driver.eqs[self.eqn].drain()]

    def fault(self) -> FaultEvent:
        """Run the node; return the only pending event. Raises DriverError for none or several."""
        faults = self.faults()
        expect(len(faults) == 1, f"page faults: {faults}")
        (event,) = faults
        return event

    def resume(self, event: FaultEvent, *, error: bool = False, **changes: Any) -> Status:
        """Run PAGE_FAULT_RESUME like hw/odp.c, then the node; return the command's status.

        With ``error``, the faulting request fails. ``changes`` replace fields that follow from the
        event.
        """
        info = resume_info(event, error=error, **changes)
        answer = self.node.driver.command(Op.PAGE_FAULT_RESUME, page_fault_info=info)
        self.node.settle()
        return answer.status

    def must_resume(self, event: FaultEvent, **options: Any) -> None:
        """Run PAGE_FAULT_RESUME; raise DriverError if it is refused."""
        status = self.resume(event, **options)
        expect(status == Status.OK, f"PAGE_FAULT_RESUME: {status!r}")

    def update(self, region: Region, index: int, entries: Sequence[int]) -> None:
        """Write eight translations from ``index`` on, a multiple of eight, by UMR.

        The call waits for the UMR. Raises DriverError if it fails.
        """
        xlt = pack64(entries).ljust(_BLOCK * 8, b"\0")
        umr(
            self.updater, region.key, flags=MUST_NOT_BE_FREE | OFFSET, mask=0, xlt=xlt,
            offset=index // 2,
        )  # fmt: skip
        self.finish()

    def finish(self) -> None:
        """Run the node until the updater's one WQE completes.

        Raises DriverError if it failed, ValueError unless exactly one completed.
        """
        self.node.settle()
        (done,) = good(self.updater)
        expect(done.opcode is CqeOpcode.REQ, f"{done}")


def resume_info(event: FaultEvent, *, error: bool = False, **changes: Any) -> bytes:
    """Return the page_fault_info of PAGE_FAULT_RESUME for an event.

    ``changes`` replace fields that follow from the event.
    """
    if event.subtype is PageFaultSubtype.MEMORY:
        token = changes.get("token", event.token)
        memory = mem_page_fault_info.new(
            error=error, fault_token_47_32=token >> 32, fault_token_31_0=token & 0xFFFFFFFF
        )
        return bytes(memory)
    is_wqe = event.subtype is PageFaultSubtype.WQE
    fields = {
        "page_fault_type": event.type, "fault_token": event.token,
        "wq_number": event.number if is_wqe else event.token,
    } | changes  # fmt: skip
    return bytes(trans_page_fault_info.new(error=error, **fields))


class PagedRegion(Region):
    """Registered memory without present pages until ``bring_in`` makes them present."""

    def __init__(self, pager: Pager, size: int, **context: Any) -> None:
        """Register the memory like a region; ``rights`` are those of each page."""
        super().__init__(pager.node, size, **{"umr_en": 1} | context)
        self.pager = pager
        self.rights = [0] * len(self.pages)
        self._write(range(len(self.pages)))

    def bring_in(self, *indexes: int, rights: int = BOTH) -> None:
        """Make pages present; all of them when the caller names none."""
        self._set(indexes, rights)

    def take_away(self, *indexes: int) -> None:
        """Remove pages, as after madvise(MADV_DONTNEED)."""
        self._set(indexes, 0)

    def _set(self, indexes: Sequence[int], rights: int) -> None:
        """Set the rights of pages in the device's translations, of all if none is named."""
        chosen = indexes or range(len(self.pages))
        for index in chosen:
            self.rights[index] = rights
        self._write(chosen)

    def _write(self, indexes: Iterable[int]) -> None:
        """Write the translations of the pages to the device, in blocks of eight."""
        for block in sorted({index // _BLOCK * _BLOCK for index in indexes}):
            entries = [
                page | rights if rights else 0
                for page, rights in zip(self.pages, self.rights, strict=True)
            ]
            self.pager.update(self, block, entries[block : block + _BLOCK])
