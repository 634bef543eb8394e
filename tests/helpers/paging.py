"""On-demand paging as a driver does it: page-fault events, pages that come and go, resumes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from emu.device.models import ALL_MEMORY_ODP, ALL_TRANSPORT_ODP
from helpers.driver import pack64
from helpers.keys import MUST_NOT_BE_FREE, OFFSET, umr
from helpers.verbs import Region
from layouts.enums import AccessMode, EventType, Op, PageFaultSubtype, Status
from layouts.eqe import eqe_page_fault_memory, eqe_page_fault_rdma, eqe_page_fault_wqe
from layouts.odp import mem_page_fault_info, trans_page_fault_info
from layouts.wqe import KLM

IN_BOTH_SCHEMES = pytest.mark.parametrize(
    "scheme", [ALL_TRANSPORT_ODP, ALL_MEMORY_ODP], ids=["transport", "memory"]
)
"""For classes and modules that run in either scheme; they use the fixture ``scheme`` as well.

All operations may wait for pages, which is more than a model offers by default.
"""

READ, WRITE, BOTH = 1, 2, 3
_BLOCK = 8
"""MTT entries that one UMR replaces: translations are updated in multiples of 64 bytes."""


@dataclass(frozen=True)
class FaultEvent:
    """What a page-fault event says, of all three kinds."""

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


class Pager:
    """The side of a driver that takes page faults."""

    def __init__(self, node, log_size=6):
        self.node = node
        self.eqn = node.driver.create_eq(log_size=log_size, events=[EventType.PAGE_FAULT])
        node.driver.eqs[self.eqn].arm()
        self.updater = node.queue_pair()
        self.updater.init().to_rtr(node.lid, self.updater.qpn).to_rts()

    def faults(self):
        """The events since the last look."""
        self.node.settle()
        return [_event(entry) for entry in self.node.driver.eqs[self.eqn].drain()]

    def fault(self):
        """The one event there is."""
        (event,) = self.faults()
        return event

    def resume(self, event, *, error=False, **changes):
        """PAGE_FAULT_RESUME as hw/odp.c does it; the command's status."""
        if event.subtype is PageFaultSubtype.MEMORY:
            token = changes.get("token", event.token)
            info = mem_page_fault_info.new(
                error=error, fault_token_47_32=token >> 32, fault_token_31_0=token & 0xFFFFFFFF
            )
        else:
            is_wqe = event.subtype is PageFaultSubtype.WQE
            fields = {
                "page_fault_type": event.type, "fault_token": event.token,
                "wq_number": event.number if is_wqe else event.token,
            } | changes  # fmt: skip
            info = trans_page_fault_info.new(error=error, **fields)
        answer = self.node.driver.command(Op.PAGE_FAULT_RESUME, page_fault_info=bytes(info))
        self.node.settle()
        return answer.status

    def must_resume(self, event, **options):
        assert self.resume(event, **options) == Status.OK

    def update(self, region, index, entries):
        """Translations from ``index`` on, which is a multiple of eight."""
        xlt = pack64(entries).ljust(_BLOCK * 8, b"\0")
        umr(
            self.updater, region.key, flags=MUST_NOT_BE_FREE | OFFSET, mask=0, xlt=xlt,
            offset=index // 2,
        )  # fmt: skip
        self.node.settle()
        (done,) = self.updater.cq.drain()
        assert not done.syndrome


class PagedRegion(Region):
    """Registered memory of which nothing is present until ``bring_in`` says so."""

    def __init__(self, pager, size, **context):
        super().__init__(pager.node, size, **{"umr_en": 1} | context)
        self.pager = pager
        self.rights = [0] * len(self.pages)
        self._write(range(len(self.pages)))

    def bring_in(self, *indexes, rights=BOTH):
        """Pages become present; all of them when none is named."""
        self._set(indexes, rights)

    def take_away(self, *indexes):
        """Pages go, as after madvise(MADV_DONTNEED)."""
        self._set(indexes, 0)

    def _set(self, indexes, rights):
        indexes = indexes or range(len(self.pages))
        for index in indexes:
            self.rights[index] = rights
        self._write(indexes)

    def _write(self, indexes):
        for block in sorted({index // _BLOCK * _BLOCK for index in indexes}):
            entries = [
                page | rights if rights else 0
                for page, rights in zip(self.pages, self.rights, strict=True)
            ]
            self.pager.update(self, block, entries[block : block + _BLOCK])


class ImplicitKey:
    """The whole address space behind one key (hw/odp.c: mlx5_ib_alloc_implicit_mr)."""

    CHILDREN = 8

    def __init__(self, pager, log_child=14):
        self.pager, self.node, self.log_child = pager, pager.node, log_child
        self.null = self._null()
        self.entries = [(0, *self.absent(number)) for number in range(self.CHILDREN)]
        rights = {"lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1}
        fields = {
            "pd": self.node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.KSM, "umr_en": 1,
            "length64": 1, "log_page_size": self.log_child,
            "translations_octword_size": self.CHILDREN,
        } | rights  # fmt: skip
        answer = self.node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields, extra=self._xlt(),
            translations_octword_actual_size=self.CHILDREN,
        )  # fmt: skip
        self.index, self.key = answer.mkey_index, answer.mkey_index << 8

    def _null(self):
        """The null key, or in the memory scheme one of its own that has no page at all."""
        if not self.node.hca.caps.odp.mem_page_fault:
            return self.node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).null_mkey
        fields = {
            "pd": self.node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "length64": 1,
            "lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1, "log_page_size": 61,
            "translations_octword_size": 4,
        }  # fmt: skip
        answer = self.node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields, pg_access=1, extra=bytes(64),
            translations_octword_actual_size=4,
        )  # fmt: skip
        return answer.mkey_index << 8

    def absent(self, number):
        is_memory = self.node.hca.caps.odp.mem_page_fault
        return self.null, number << self.log_child if is_memory else 0

    def _xlt(self):
        return b"".join(KLM.pack(*entry) for entry in self.entries)

    def put(self, number, key=None):
        """A child takes its place in the parent, or leaves it."""
        va = number << self.log_child
        self.entries[number] = (0, *(self.absent(number) if key is None else (key, va)))
        block = number // 4 * 4
        xlt = b"".join(KLM.pack(*entry) for entry in self.entries[block : block + 4])
        umr(
            self.pager.updater, self.key, flags=MUST_NOT_BE_FREE | OFFSET, mask=0, xlt=xlt,
            offset=block,
        )  # fmt: skip
        self.node.settle()
        (done,) = self.pager.updater.cq.drain()
        assert not done.syndrome

    def child(self, number):
        size = 1 << self.log_child
        return PagedRegion(self.pager, size, va=number * size)


def _event(entry):
    assert entry.type == EventType.PAGE_FAULT
    subtype = PageFaultSubtype(entry.sub_type)
    if subtype is PageFaultSubtype.MEMORY:
        view = eqe_page_fault_memory.view(entry.data)
        assert not view.pre_demand_fault_pages
        assert not view.post_demand_fault_pages
        return FaultEvent(
            subtype, view.token47_32 << 32 | view.token31_0, r_key=view.mkey, va=view.va,
            length=(view.demand_fault_pages >> 12) * 4096, is_last=bool(view.flags & 0x80),
        )  # fmt: skip
    if subtype is PageFaultSubtype.RDMA:
        view = eqe_page_fault_rdma.view(entry.data)
        return FaultEvent(
            subtype, view.pftype_token.token, type=_type(view.pftype_token), r_key=view.r_key,
            packet_length=view.packet_length, va=view.rdma_va, length=view.rdma_op_len,
            committed=view.bytes_committed,
        )  # fmt: skip
    view = eqe_page_fault_wqe.view(entry.data)
    return FaultEvent(
        subtype, view.token, type=_type(view.pftype_wq), number=view.pftype_wq.wq,
        wqe_index=view.wqe_index, packet_length=view.packet_length,
        committed=view.bytes_committed,
    )  # fmt: skip


def _type(view):
    return view.rdma << 2 | view.write << 1 | view.requestor
