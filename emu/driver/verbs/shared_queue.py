"""Shared receive queues of a verbs provider (hw/srq.c), and the ring of UCX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.driver.command.answer import expect
from emu.driver.command.words import unpack64
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import END_OF_LIST, PAGE, Sge
from layouts.enums.cmd import Op
from layouts.rings.wqe import DATA, DS, NEXT

ARM_XRQ = 2
"""Value of op_mod of ARM_RQ (MLX5_ARM_RQ_IN_OP_MOD_XRQ)."""


class SharedQueue:
    """Shared receive queue in one of its forms, with its list of free WQEs.

    ``form`` is rmp, xrc (with a domain and a CQ), srq (the older one), or ring. A ring is an RMP
    whose WQEs are used in order, whatever their links are, and whose indices keep counting.
    """

    def __init__(
        self, node: Endpoint, log_size: int = 6, log_stride: int = 6, xrcd: int | None = None,
        cq: CompletionQueue | None = None, form: str | None = None, *, is_ring: bool = False,
    ) -> None:  # fmt: skip
        """Create a queue of ``1 << log_size`` WQEs of ``1 << log_stride`` bytes.

        ``is_ring`` is for an xrq.
        """
        self.node, self.log_stride, self.size = node, log_stride, 1 << log_size
        self.posted = 0
        self.form = form or ("rmp" if xrcd is None else "xrc")
        forms: dict[str, Callable[..., int]] = {
            "rmp": self._rmp,
            "ring": self._rmp,
            "xrc": self._xrc,
            "srq": self._srq,
            "xrq": lambda log_size, log_stride, *_: self._make(log_size, log_stride),
        }
        self.srqn = forms[self.form](log_size, log_stride, xrcd, cq)
        self.is_ring = is_ring or self.form == "ring"
        for index in range(self.size):
            self.link(index, 0xFFFF if self.is_ring else (index + 1) % self.size)
        self.head, self.tail = 0, self.size - 1

    def _make(self, log_size: int, log_stride: int) -> int:
        """Create the form xrq, set ``pages`` and ``record``, and return its number.

        Raises NotImplementedError here; ``tag_queue.py`` implements it.
        """
        raise NotImplementedError

    def _rmp(self, log_size: int, log_stride: int, _xrcd: object, _cq: object) -> int:
        """Create an RMP, cyclic for the form ring, and return its number.

        Set ``pages``, the ring's pages, and ``record``, the doorbell record's address. Posting
        relies on both. Raises DriverError if the command is refused.
        """
        driver, wq_type = self.node.driver, int(self.form == "ring")
        fields = driver.rmp_fields(
            self.node.pdn, log_wq_sz=log_size, log_wq_stride=log_stride, wq_type=wq_type
        )
        self.pages, self.record = unpack64(fields["extra"]), fields["ctx"]["wq"]["dbr_addr"]
        return int(driver.must(Op.CREATE_RMP, **fields).rmpn)

    def _xrc(self, log_size: int, log_stride: int, xrcd: int, cq: CompletionQueue) -> int:
        """Create an XRC SRQ of the domain and the CQ, and return its number.

        Set ``pages`` and ``record`` as :meth:`_rmp` does.
        """
        driver, stride = self.node.driver, log_stride - 4
        fields = driver.xrc_srq_fields(
            self.node.pdn, xrcd, cq.cqn, log_size=log_size, log_rq_stride=stride
        )
        entry = fields["xrc_srq_context_entry"]
        self.pages = unpack64(fields["extra"])
        self.record = entry["db_record_addr_h"] << 32 | entry["db_record_addr_l"] << 2
        return int(driver.must(Op.CREATE_XRC_SRQ, **fields).xrc_srqn)

    def _srq(
        self, log_size: int, log_stride: int, xrcd: int | None, cq: CompletionQueue | None
    ) -> int:
        """Run CREATE_SRQ, with domain and CQ only if both are given; return the number.

        Set ``pages`` and ``record`` as :meth:`_rmp` does.
        """
        driver, stride = self.node.driver, log_stride - 4
        domain = {} if xrcd is None or cq is None else {"xrcd": xrcd, "cqn": cq.cqn}
        fields = driver.srq_fields(self.node.pdn, log_size=log_size, log_rq_stride=stride, **domain)
        self.pages, self.record = unpack64(fields["extra"]), fields["srq_context_entry"]["dbr_addr"]
        return int(driver.must(Op.CREATE_SRQ, **fields).srqn)

    def _address(self, index: int) -> int:
        at = index << self.log_stride
        return self.pages[at // PAGE] + at % PAGE

    def link(self, index: int, following: int) -> None:
        """Set the link of a WQE."""
        self.node.memory.write(self._address(index), NEXT.pack(following))

    def _following(self, index: int) -> int:
        (following, *_) = NEXT.unpack_from(self.node.memory.read(self._address(index), DS))
        return int(following)

    def post(self, *sges: Sge) -> int:
        """Fill the first free WQE and count it in the doorbell record; return its index.

        Raises DriverError if none is free; a ring is never full.
        """
        index = self._free_index()
        body = b"".join(DATA.pack(*sge) for sge in sges) + END_OF_LIST
        at = self._address(index % self.size) + DS
        self.node.memory.write(at, body[: (1 << self.log_stride) - DS])
        self.posted += 1
        self.count(self.posted)
        return index

    def _free_index(self) -> int:
        """Take the first WQE from the list of free ones, or a ring's next; return its index.

        Raises DriverError if the list has only its last WQE.
        """
        if self.is_ring:
            return self.posted & 0xFFFF
        index = self.head
        expect(index != self.tail, "the queue is full")
        self.head = self._following(index)
        return index

    def count(self, posted: int) -> None:
        """Write the counter into the doorbell record."""
        self.node.memory.write(self.record, (posted & 0xFFFF).to_bytes(4, "big"))

    def free(self, index: int) -> None:
        """Append a completed WQE to the list of free ones; do nothing for a ring, without list."""
        if not self.is_ring:
            self.link(self.tail, index)
            self.tail = index

    def arm(self, mark: int) -> None:
        """Arm the limit event for fewer than ``mark`` remaining WQEs, by the form's command.

        Raises DriverError if the command is refused.
        """
        limit = {"bitmask": {"lwm": 1}, "ctx": {"wq": {"lwm": mark}}}
        forms: dict[str, tuple[Op, dict[str, Any]]] = {
            "rmp": (Op.MODIFY_RMP, {"rmpn": self.srqn} | limit),
            "ring": (Op.MODIFY_RMP, {"rmpn": self.srqn} | limit),
            "xrc": (Op.ARM_XRC_SRQ, {"xrc_srqn": self.srqn, "lwm": mark}),
            "srq": (Op.ARM_RQ, {"srq_number": self.srqn, "lwm": mark}),
            "xrq": (Op.ARM_RQ, {"op_mod": ARM_XRQ, "srq_number": self.srqn, "lwm": mark}),
        }  # fmt: skip
        op, fields = forms[self.form]
        self.node.driver.must(op, **fields)
