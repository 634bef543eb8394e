"""Work requests: segments in a queue pair's rings, doorbell records, doorbells (hw/wr.c)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import (
    END_OF_LIST,
    PAGE,
    SIGNALED,
    Remote,
    Sge,
    data_segments,
    xrc_segments,
)
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import (
    ATOMIC,
    CTRL,
    DS,
    EXTENDED_ATOMIC,
    MASKED_ATOMIC,
    MASKED_CS_4,
    MASKED_FA,
    MASKED_FA_4,
    RADDR,
    WQEBB,
    av,
)

_BLUE_FLAME = 0x800
_IS_EXTENDED = 1 << 31


class WorkRequests:
    """Posts work requests. Each verb returns the WQE's wqe_counter, which its completion names.

    Data are ranges of memory, or inline bytes. ``options`` are those of :meth:`post`; ``xrc_srqn``
    names the destination's shared queue of an XRC queue pair.
    """

    node: Endpoint
    qpn: int
    pages: list[int]
    record: int
    rq_stride: int
    rq_size: int
    sq_offset: int
    sq_size: int
    sent: int
    """Producer counter of the send queue, in WQEBBs of 64 bytes."""
    received: int
    """Producer counter of the receive queue, in WQEs."""

    def put(self, at: int, data: bytes) -> None:
        """Write into the queue pair's buffer, across page ends."""
        while data:
            room = PAGE - at % PAGE
            self.node.memory.write(self.pages[at // PAGE] + at % PAGE, data[:room])
            at, data = at + room, data[room:]

    def post_recv(self, *sges: Sge | bytes) -> None:
        """Post a receive WQE, and write the doorbell record; a full ring is not detected."""
        body = b"".join(data_segments(sges))
        if len(body) < self.rq_stride:
            body += END_OF_LIST
        self.put((self.received % self.rq_size) * self.rq_stride, body)
        self.received += 1
        self.node.memory.write(self.record, (self.received & 0xFFFF).to_bytes(4, "big"))

    def post(
        self, opcode: int, *segments: bytes, imm: int = 0, opmod: int = 0, flags: int = SIGNALED,
        ring: bool = True,
    ) -> int:  # fmt: skip
        """Post segments behind a control segment; return the WQE's wqe_counter.

        ``flags`` are fm_ce_se: SIGNALED, SOLICITED, FENCE. Without ``ring``, the WQE waits for the
        doorbell of a later one. A full ring is not detected.
        """
        body = b"".join(segments)
        ds = 1 + -(-len(body) // DS)
        index = self.sent & 0xFFFF
        wqe = CTRL.pack(opmod << 24 | index << 8 | opcode, self.qpn << 8 | ds, flags, imm) + body
        wqe = wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")
        for number in range(len(wqe) // WQEBB):
            at = (self.sent + number) % self.sq_size * WQEBB
            self.put(self.sq_offset + at, wqe[number * WQEBB :][:WQEBB])
        self.sent += len(wqe) // WQEBB
        self.node.memory.write(self.record + 4, (self.sent & 0xFFFF).to_bytes(4, "big"))
        if ring:
            self.ring(wqe)
        return index

    def ring(self, wqe: bytes = b"") -> None:
        """Ring the doorbell with the WQE's first 8 bytes; the work is done when the node runs."""
        first = wqe[:8] or (0).to_bytes(4, "big") + (self.qpn << 8).to_bytes(4, "big")
        driver = self.node.driver
        driver.bar.write(driver.uar * driver.uar_bytes + _BLUE_FLAME, first)

    # -- verbs

    def send(
        self, *sges: Sge | bytes, imm: int | None = None, inv_rkey: int | None = None,
        xrc_srqn: int | None = None, **options: Any,
    ) -> int:  # fmt: skip
        """Post SEND; with ``imm`` SEND_IMM, with ``inv_rkey`` SEND_INVAL of a key at the peer.

        ``inv_rkey`` takes precedence over ``imm``.
        """
        opcode = Opcode.SEND
        if imm is not None:
            opcode, options["imm"] = Opcode.SEND_IMM, imm
        if inv_rkey is not None:
            opcode, options["imm"] = Opcode.SEND_INVAL, inv_rkey
        return self.post(opcode, *xrc_segments(xrc_srqn), *data_segments(sges), **options)

    def write(
        self, remote: Remote, *sges: Sge | bytes, imm: int | None = None,
        xrc_srqn: int | None = None, **options: object,
    ) -> int:  # fmt: skip
        """Post RDMA_WRITE; with an immediate it consumes a receive WQE of the peer's."""
        opcode = Opcode.RDMA_WRITE
        if imm is not None:
            opcode, options["imm"] = Opcode.RDMA_WRITE_IMM, imm
        return self._remote(opcode, remote, b"", *sges, xrc_srqn=xrc_srqn, **options)

    def read(self, remote: Remote, *sges: Sge | bytes, **options: Any) -> int:
        """Post RDMA_READ into local memory."""
        return self._remote(Opcode.RDMA_READ, remote, b"", *sges, **options)

    def compare_swap(
        self, remote: Remote, sge: Sge, compare: int, swap: int, **options: Any
    ) -> int:
        """Post an atomic: eight bytes become ``swap`` if they equal ``compare``.

        The old value is written to ``sge``.
        """
        return self._remote(Opcode.ATOMIC_CS, remote, ATOMIC.pack(swap, compare), sge, **options)

    def fetch_add(self, remote: Remote, sge: Sge, add: int, **options: Any) -> int:
        """Post an atomic that adds to eight bytes; the old value is written to ``sge``."""
        return self._remote(Opcode.ATOMIC_FA, remote, ATOMIC.pack(add, 0), sge, **options)

    def masked_compare_swap(
        self, remote: Remote, sge: Sge, compare: int, swap: int, masks: tuple[int, int],
        **options: Any,
    ) -> int:  # fmt: skip
        """Post a masked compare and swap; ``masks`` select the compared and the swapped bits.

        The length of ``sge``, 4 or 8 bytes, is that of the operands; the old value is written
        there.
        """
        layout = MASKED_CS_4 if sge[0] == 4 else MASKED_ATOMIC
        segment = layout.pack(swap, compare, *masks[::-1])
        options = _extended(sge) | options
        return self._remote(Opcode.ATOMIC_MASKED_CS, remote, segment, sge, **options)

    def masked_fetch_add(
        self, remote: Remote, sge: Sge, add: int, boundary: int = 0, **options: Any
    ) -> int:
        """Post a masked addition; each set bit of ``boundary`` is the top bit of a field.

        The length of ``sge``, 4 or 8 bytes, is that of the operands; the old value is written
        there.
        """
        layout = MASKED_FA_4 if sge[0] == 4 else MASKED_FA
        segment = layout.pack(add, boundary)
        options = _extended(sge) | options
        return self._remote(Opcode.ATOMIC_MASKED_FA, remote, segment, sge, **options)

    def _remote(
        self, opcode: Opcode, remote: Remote, operands: bytes, *sges: Sge | bytes,
        xrc_srqn: int | None = None, **options: Any,
    ) -> int:  # fmt: skip
        """Post a WQE about the peer's memory: address, operands, data; return its wqe_counter."""
        raddr = RADDR.pack(remote[1], remote[0])
        segments = (*xrc_segments(xrc_srqn), raddr, operands, *data_segments(sges))
        return self.post(opcode, *segments, **options)

    def datagram(
        self, to: Mapping[str, Any], *sges: Sge | bytes, imm: int | None = None, **options: Any
    ) -> int:
        """Post a datagram; with ``imm`` SEND_IMM.

        Return the WQE's wqe_counter. ``to`` holds fields of the address vector: dqp_dct, rlid, key
        (Q_Key in its top half).
        """
        fields = dict(to)
        fields["dqp_dct"] = fields["dqp_dct"] | _IS_EXTENDED
        opcode = Opcode.SEND
        if imm is not None:
            opcode, options["imm"] = Opcode.SEND_IMM, imm
        return self.post(opcode, bytes(av.new(**fields).buf), *data_segments(sges), **options)


def _extended(sge: Sge) -> dict[str, Any]:
    """Return the length of a masked atomic's operands, for the control segment."""
    return {"opmod": EXTENDED_ATOMIC | sge[0].bit_length() - 3}
