"""Buffers of Ethernet queues, and the input of the commands that create queues."""

from __future__ import annotations

from typing import Any

from emu.driver.command.driver import Driver, Fields
from emu.driver.command.words import pack64
from emu.driver.verbs.segments import PAGE
from emu.driver.world.memory import Memory
from layouts.enums.wq import WqType
from layouts.rings.wqe import WQEBB


class Ring:
    """Pages of a queue's buffer, and its doorbell record."""

    def __init__(self, memory: Memory, size: int) -> None:
        """Allocate a buffer of ``size`` bytes."""
        self.memory = memory
        self.pages = memory.pages(size)
        self.record = memory.alloc(64, 64)

    def write(self, at: int, data: bytes) -> None:
        """Write into the buffer, across page ends."""
        while data:
            room = PAGE - at % PAGE
            self.memory.write(self.pages[at // PAGE] + at % PAGE, data[:room])
            at, data = at + room, data[room:]


def sq_fields(
    driver: Driver, pdn: int, cqn: int, *, log_size: int = 6, tisn: int | None = None,
    **context: Any,
) -> tuple[Fields, Ring]:  # fmt: skip
    """Return the input of CREATE_SQ, and its ring: ``1 << log_size`` WQEBBs of 64 bytes.

    ``context`` are fields of sqc; its ``wq`` has the fields that differ from the default.
    """
    ring = Ring(driver.memory, WQEBB << log_size)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "uar_page": driver.uar,
        "dbr_addr": ring.record, "log_wq_stride": 6, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx: Fields = {"cqn": cqn, "flush_in_error_en": 1, "wq": wq}
    if tisn is not None:
        ctx |= {"tis_lst_sz": 1, "tis_num_0": tisn}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring


def rq_fields(
    driver: Driver, pdn: int, cqn: int, *, log_size: int = 4, log_stride: int = 5, **context: Any
) -> tuple[Fields, Ring]:
    """Return the input of CREATE_RQ, and its ring; a WQE has ``1 << log_stride`` bytes.

    ``context`` are fields of rqc; its ``wq`` has the fields that differ from the default.
    """
    ring = Ring(driver.memory, 1 << log_size + log_stride)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "dbr_addr": ring.record,
        "log_wq_stride": log_stride, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx: Fields = {"cqn": cqn, "flush_in_error_en": 1, "vsd": 1, "wq": wq}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring
