"""Small driver: objects that mlx5_core and mlx5_ib create on a function, without a kernel.

Each ``<object>_fields`` returns the input of a CREATE command, so that a caller can change it. Each
``create_<object>`` runs the command and returns the object's number. ``context`` are fields of the
object's context that replace the defaults. Sizes are exponents: ``log_size`` 4 means 16 entries.
"""

from __future__ import annotations

from typing import Any

from emu.driver.command.bringup import BringUp
from emu.driver.command.words import pack64
from layouts.enums.cmd import Op

Fields = dict[str, Any]
"""Fields of a command's input by name, the arguments of :meth:`Commands.command`."""

NUMBERS = 0xFFFFFF
"""Value of user_index for a kernel's queues, whose completions name them by number
(MLX5_IB_DEFAULT_UIDX).
"""


class Driver(BringUp):
    """Protection domains, keys, and queues with buffers and doorbell records of their own."""

    def alloc_pd(self) -> int:
        """Run ALLOC_PD; return the domain's number."""
        return int(self.must(Op.ALLOC_PD).pd)

    def create_mkey(self, pd: int, **context: object) -> int:
        """Create a key over all memory for local access.

        Returns its index (the key without variant). ``context`` are fields of mkc. Raises
        DriverCommandError if refused.
        """
        context = {"pd": pd, "length64": 1, "lr": 1, "lw": 1, "qpn": 0xFFFFFF} | context
        return int(self.must(Op.CREATE_MKEY, memory_key_mkey_entry=context).mkey_index)

    # -- completion queues and queue pairs

    def cq_fields(self, eqn: int, *, log_size: int = 4, **context: object) -> Fields:
        """Return the input of CREATE_CQ, with a buffer for entries of 64 bytes.

        Ring and doorbell record are allocated; all entries are invalid. ``context`` are fields of
        cqc.
        """
        fields = {
            "log_cq_size": log_size, "c_eqn_or_apu_element": eqn, "uar_page": self.uar,
            "dbr_addr": self._record(),
        } | context  # fmt: skip
        pages = self.memory.pages(64 << log_size)
        for page in pages:
            self.memory.write(page, (bytes(63) + b"\xf1") * 64)  # invalid, owned by the device
        return {"cq_context": fields, "extra": pack64(pages)}

    def create_cq(self, eqn: int, **context: Any) -> int:
        """Create a CQ that reports to an EQ; return its number."""
        return int(self.must(Op.CREATE_CQ, **self.cq_fields(eqn, **context)).cqn)

    def qp_fields(
        self, pdn: int, cqn: int, *, st: int = 0, log_sq_size: int = 2, log_rq_size: int = 2,
        **context: object,
    ) -> Fields:  # fmt: skip
        """Return the input of CREATE_QP; receive WQEs have ``16 << log_rq_stride`` bytes.

        Rings and doorbell record are allocated. One CQ serves both directions; ``context`` are
        fields of qpc.
        """
        fields: Fields = {
            "st": st, "pd": pdn, "cqn_snd": cqn, "cqn_rcv": cqn, "uar_page": self.uar,
            "log_sq_size": log_sq_size, "log_rq_size": log_rq_size, "dbr_addr": self._record(),
            "user_index": NUMBERS,
        } | context  # fmt: skip
        size = (64 << log_sq_size) + (16 << log_rq_size + fields.get("log_rq_stride", 0))
        return {"qpc": fields, "extra": pack64(self.memory.pages(size))}

    def create_qp(self, pdn: int, cqn: int, **context: Any) -> int:
        """Create a queue pair in RST, with one CQ for both directions; return its number."""
        return int(self.must(Op.CREATE_QP, **self.qp_fields(pdn, cqn, **context)).qpn)

    # -- shared receive queues

    def rmp_fields(
        self, pdn: int, *, log_wq_sz: int = 2, log_wq_stride: int = 5,
        basic_cyclic_rcv_wqe: int = 0, **context: object,
    ) -> Fields:  # fmt: skip
        """Return the input of CREATE_RMP.

        The stride is log2 of bytes; ``context`` are fields of the wq. Ring and doorbell record are
        allocated.
        """
        wq = {
            "pd": pdn, "log_wq_sz": log_wq_sz, "log_wq_stride": log_wq_stride,
            "dbr_addr": self._record(),
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(1 << log_wq_sz + log_wq_stride))
        return {"ctx": {"wq": wq, "basic_cyclic_rcv_wqe": basic_cyclic_rcv_wqe}, "extra": pages}

    def create_rmp(self, pdn: int, **context: Any) -> int:
        """Run CREATE_RMP; return the queue's number."""
        return int(self.must(Op.CREATE_RMP, **self.rmp_fields(pdn, **context)).rmpn)

    def xrc_srq_fields(
        self, pdn: int, xrcd: int, cqn: int, /, *, log_size: int = 2, log_rq_stride: int = 1,
        **context: object,
    ) -> Fields:  # fmt: skip
        """Return the input of CREATE_XRC_SRQ; the stride is ``16 << log_rq_stride`` bytes.

        Ring and doorbell record are allocated; ``context`` are fields of xrc_srqc.
        """
        record = self._record()
        fields = {
            "pd": pdn, "xrcd": xrcd, "cqn": cqn, "log_xrc_srq_size": log_size,
            "log_rq_stride": log_rq_stride, "user_index": NUMBERS,
            "db_record_addr_h": record >> 32, "db_record_addr_l": (record & 0xFFFFFFFF) >> 2,
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(16 << log_size + log_rq_stride))
        return {"xrc_srq_context_entry": fields, "extra": pages}

    def create_xrc_srq(self, pdn: int, xrcd: int, cqn: int, /, **context: Any) -> int:
        """Run CREATE_XRC_SRQ; return the queue's number.

        Raises DriverCommandError if refused.
        """
        fields = self.xrc_srq_fields(pdn, xrcd, cqn, **context)
        return int(self.must(Op.CREATE_XRC_SRQ, **fields).xrc_srqn)

    def srq_fields(
        self, pdn: int, *, log_size: int = 2, log_rq_stride: int = 1, **context: object
    ) -> Fields:
        """Return the input of CREATE_SRQ (ISSI 0); the stride is ``16 << log_rq_stride`` bytes.

        Ring and doorbell record are allocated; ``context`` are fields of srqc.
        """
        fields = {
            "pd": pdn, "log_srq_size": log_size, "log_rq_stride": log_rq_stride,
            "dbr_addr": self._record(),
        } | context  # fmt: skip
        pages = pack64(self.memory.pages(16 << log_size + log_rq_stride))
        return {"srq_context_entry": fields, "extra": pages}

    def create_srq(self, pdn: int, **context: Any) -> int:
        """Run CREATE_SRQ; return the queue's number."""
        return int(self.must(Op.CREATE_SRQ, **self.srq_fields(pdn, **context)).srqn)

    def _record(self) -> int:
        """Allocate a doorbell record in 64 bytes of its own; return its address."""
        return self.memory.alloc(64, 64)
