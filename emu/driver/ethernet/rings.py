"""The buffers of Ethernet queues, and what the commands that make queues take."""

from __future__ import annotations

from emu.driver.command.words import pack64
from layouts.eth_enums import WqType
from layouts.wqe import WQEBB

PAGE = 4096


class Ring:
    """Pages of a queue's buffer, and its doorbell record."""

    def __init__(self, memory, size):
        self.memory = memory
        self.pages = memory.pages(size)
        self.record = memory.alloc(64, 64)

    def write(self, at, data):
        """Write into the buffer, over page ends."""
        while data:
            room = PAGE - at % PAGE
            self.memory.write(self.pages[at // PAGE] + at % PAGE, data[:room])
            at, data = at + room, data[room:]


def sq_fields(driver, pdn, cqn, *, log_size=6, tisn=None, **context):
    """What CREATE_SQ takes, and the ring behind it."""
    ring = Ring(driver.memory, WQEBB << log_size)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "uar_page": driver.uar,
        "dbr_addr": ring.record, "log_wq_stride": 6, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx = {"cqn": cqn, "flush_in_error_en": 1, "wq": wq}
    if tisn is not None:
        ctx |= {"tis_lst_sz": 1, "tis_num_0": tisn}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring


def rq_fields(driver, pdn, cqn, *, log_size=4, log_stride=5, **context):
    """What CREATE_RQ takes, and the ring behind it; a WQE has ``1 << log_stride`` bytes."""
    ring = Ring(driver.memory, 1 << log_size + log_stride)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "dbr_addr": ring.record,
        "log_wq_stride": log_stride, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx = {"cqn": cqn, "flush_in_error_en": 1, "vsd": 1, "wq": wq}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring
