"""Page-fault events, of all three kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.driver.command.answer import expect
from layouts.enums.eqe import EventType, PageFaultSubtype
from layouts.rings.eqe import eqe_page_fault_memory, eqe_page_fault_rdma, eqe_page_fault_wqe

if TYPE_CHECKING:
    from layouts.rings.eqe import eqe, pftype_token, pftype_wq


@dataclass(frozen=True)
class FaultEvent:
    """Fields of a page-fault event; those that its kind lacks are 0. Sizes are in bytes."""

    subtype: PageFaultSubtype
    token: int
    type: int = 0
    number: int = 0
    wqe_index: int = 0
    packet_length: int = 0
    r_key: int = 0
    va: int = 0
    length: int = 0
    committed: int = 0
    is_last: bool = False


def fault_event(entry: eqe) -> FaultEvent:
    """Return the fields of a page-fault EQE of any of the three kinds.

    Raises DriverError for another event type, and for pages around the requested ones.
    """
    expect(entry.type == EventType.PAGE_FAULT, f"event {entry.type} on a pager's EQ")
    subtype = PageFaultSubtype(entry.sub_type)
    if subtype is PageFaultSubtype.MEMORY:
        memory = eqe_page_fault_memory.view(entry.data)
        around = (memory.pre_demand_fault_pages, memory.post_demand_fault_pages)
        expect(around == (0, 0), f"{around} pages around the requested ones")
        return FaultEvent(
            subtype, memory.token47_32 << 32 | memory.token31_0, r_key=memory.mkey, va=memory.va,
            length=(memory.demand_fault_pages >> 12) * 4096, is_last=bool(memory.flags & 0x80),
        )  # fmt: skip
    if subtype is PageFaultSubtype.RDMA:
        rdma = eqe_page_fault_rdma.view(entry.data)
        return FaultEvent(
            subtype, rdma.pftype_token.token, type=_type(rdma.pftype_token), r_key=rdma.r_key,
            packet_length=rdma.packet_length, va=rdma.rdma_va, length=rdma.rdma_op_len,
            committed=rdma.bytes_committed,
        )  # fmt: skip
    wqe = eqe_page_fault_wqe.view(entry.data)
    return FaultEvent(
        subtype, wqe.token, type=_type(wqe.pftype_wq), number=wqe.pftype_wq.wq,
        wqe_index=wqe.wqe_index, packet_length=wqe.packet_length, committed=wqe.bytes_committed,
    )  # fmt: skip


def _type(view: pftype_token | pftype_wq) -> int:
    """Return the page-fault type, in the form of PAGE_FAULT_RESUME."""
    return int(view.rdma << 2 | view.write << 1 | view.requestor)
