"""Shared receive queue that matches tags, of a verbs provider (libmlx5, UCX)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from emu.driver.command.answer import DriverError
from emu.driver.command.words import unpack64
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.segments import END_OF_LIST, Sge, inline
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wqe import Opcode
from layouts.objects.xrq import OFFLOAD_RNDV, TOPOLOGY_TAG_MATCHING
from layouts.rings.cqe import cqe64
from layouts.rings.tag_matching import (
    CQE_APP,
    CQE_APP_AT,
    TM_CQE_REQ,
    TM_SW_CNT,
    TmAppOp,
    TmOpcode,
    tm_cqe,
    wqe_tm_seg,
)
from layouts.rings.wqe import DATA
from layouts.wire.tmh import RVH, TMH, TmhOp

DRIVERS_OWN = 0xFFFFFF
"""Value of user_index for a queue whose completions name it by its number."""
ALL_BITS = (1 << 64) - 1


def eager(tag: int, data: bytes = b"", context: int = 0) -> bytes:
    """Return a tagged message with its data."""
    return TMH.pack(TmhOp.EAGER, context, tag) + data


def request(tag: int, va: int, rkey: int, length: int, more: bytes = b"") -> bytes:
    """Return a tagged message whose data the receiver fetches (rendezvous)."""
    return TMH.pack(TmhOp.RNDV, 0xC0FFEE, tag) + RVH.pack(va, rkey, length) + more


@dataclass
class TagOutcome:
    """Completion of the queue's CQ."""

    opcode: CqeOpcode
    app_op: TmAppOp
    index: int
    """Index of the entry; of a receive WQE for a message without a match."""
    byte_cnt: int = 0
    tag: int = 0
    immediate: int = 0
    success: bool = False
    hw_phase: int = 0


_ABOUT_LIST = (TmAppOp.APPEND, TmAppOp.REMOVE, TmAppOp.NOOP)
_UNMATCHED = (TmAppOp.UNEXPECTED, TmAppOp.NO_TAG)


def completion(raw: bytes) -> TagOutcome:
    """Return the completion of a 64-byte entry of tag matching.

    Raises DriverError for an error completion, or one of another application.
    """
    entry, opcode = cqe64.view(raw), CqeOpcode(raw[63] >> 4)
    app, app_op, info = CQE_APP.unpack_from(raw, CQE_APP_AT)
    if app != 1 or opcode in (CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR):
        raise DriverError(f"{opcode.name} is not a completion of tag matching")
    kind = TmAppOp(app_op)
    found = TagOutcome(opcode, kind, entry.wqe_counter if kind in _UNMATCHED else info)
    if kind in _ABOUT_LIST:
        front = tm_cqe.view(raw)
        found.success, found.hw_phase = bool(front.success), front.hw_phase_cnt
    else:
        found.tag = TMH.unpack_from(raw)[2] if kind not in _UNMATCHED else 0
        found.byte_cnt, found.immediate = entry.byte_cnt, entry.immediate
    return found


class TagQueue(SharedQueue):
    """Queue, its CQ, and the queue pair whose WQEs change its list.

    ``indices`` are the indices of its list in the order in which entries take them. The last one is
    never used, because it marks the end.
    """

    def __init__(
        self, node: Endpoint, log_list: int = 3, log_size: int = 6,
        cq: CompletionQueue | None = None, is_ring: bool = False, **context: Any,
    ) -> None:  # fmt: skip
        """Create a queue with ``1 << log_list`` indices; ``context`` are fields of xrqc.

        ``is_ring``: its WQEs are used in order, as UCX's are.
        """
        self.cq, self.has_ring = cq or CompletionQueue(node), is_ring
        self.log_list, self.context = log_list, context
        super().__init__(node, log_size, cq=self.cq, form="xrq", is_ring=is_ring)
        self.commands = QueuePair(node, srq=self, cq=self.cq, offload_type=OFFLOAD_RNDV)
        self.indices = list(range(1 << log_list))
        self.handled = 0
        """Number of unexpected messages that the software has handled."""

    def _make(self, log_size: int, log_stride: int) -> int:
        """Create the XRQ, set ``pages`` and ``record``, and return its number."""
        fields = self.fields(log_size, log_stride)
        self.pages = unpack64(fields["extra"])
        self.record = fields["xrq_context"]["wq"]["dbr_addr"]
        return int(self.node.driver.must(Op.CREATE_XRQ, **fields).xrqn)

    def fields(self, log_size: int, log_stride: int) -> dict[str, Any]:
        """Return the input of CREATE_XRQ, with pages and doorbell record of its own."""
        driver = self.node.driver
        made = driver.rmp_fields(
            self.node.pdn, log_wq_sz=log_size, log_wq_stride=log_stride, wq_type=int(self.has_ring)
        )
        context = {
            "topology": TOPOLOGY_TAG_MATCHING, "offload": OFFLOAD_RNDV, "cqn": self.cq.cqn,
            "user_index": DRIVERS_OWN,
            "tag_matching_topology_context": {"log_matching_list_sz": self.log_list},
        } | self.context  # fmt: skip
        return {"xrq_context": context | {"wq": made["ctx"]["wq"]}, "extra": made["extra"]}

    def start(self) -> Self:
        """Move the commands' queue pair to RTS, as its own peer, and return the tag queue."""
        qp = self.commands
        qp.init().to_rtr(qpn=qp.qpn, path=self.node.path_to(self.node)).to_rts()
        return self

    def queue_pair(self, **context: Any) -> QueuePair:
        """Create a queue pair that receives from the queue and carries out its rendezvous."""
        return QueuePair(self.node, srq=self, rcq=self.cq, offload_type=OFFLOAD_RNDV, **context)

    def change(
        self, opcode: int, index: int = 0, *more: bytes, tag: int = 0, mask: int = 0,
        flags: int = TM_CQE_REQ | TM_SW_CNT, count: int | None = None,
    ) -> int:  # fmt: skip
        """Post a WQE about the list of tags; return the WQE's wqe_counter.

        ``count`` is the number of unexpected messages handled, by default ``handled``.
        """
        segment = wqe_tm_seg.new(
            opcode=opcode, flags=flags, index=index, append_tag=tag, append_mask=mask,
            sw_cnt=(self.handled if count is None else count) & 0xFFFF,
        )  # fmt: skip
        return self.commands.post(Opcode.TAG_MATCHING, bytes(segment.buf), *more, flags=0)

    def add(self, sge: Sge | None, tag: int, mask: int = ALL_BITS, **options: Any) -> int:
        """Append a buffer for a tag, or an entry without a buffer; return its index.

        Raises IndexError when the last index is left.
        """
        data = DATA.pack(*sge) if sge is not None else END_OF_LIST
        self.change(TmOpcode.APPEND, self.indices[1], data, tag=tag, mask=mask, **options)
        return self.indices.pop(0)

    def add_inline(self, tag: int) -> None:
        """Append an entry without a buffer in memory, which the device must reject.

        No index is taken.
        """
        self.change(TmOpcode.APPEND, self.indices[1], inline(b"x"), tag=tag, mask=ALL_BITS)

    def remove(self, index: int, **options: Any) -> int:
        """Remove an entry."""
        return self.change(TmOpcode.REMOVE, index, **options)

    def synchronize(self, count: int | None = None) -> int:
        """Report the number of unexpected messages handled."""
        return self.change(TmOpcode.NOP, count=count)

    def drain(self) -> list[TagOutcome]:
        """Return all pending completions, and write the doorbell record.

        Raises DriverError for one that is not of tag matching, which counts as read.
        """
        completions = []
        while (raw := self.cq.peek()) is not None:
            self.cq.ci += 1
            self.cq.write_record()
            completions.append(completion(raw))
        return completions
