"""Queue pairs as a verbs provider keeps them: states, rings, work requests (hw/wr.c)."""

from __future__ import annotations

from emu.driver.command.words import unpack64
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.verbs.segments import _END_OF_LIST, PAGE, SIGNALED, _data, _xrc
from layouts.enums import Op, Opcode, QpState, QpType, RqType
from layouts.wqe import (
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


class QueuePair:
    """A queue pair of the driver's, with its rings."""

    def __init__(
        self, node, st=QpType.RC, *, log_sq_size=6, log_rq_size=6, log_rq_stride=2, srq=None,
        cq=None, rcq=None, log_cq_size=8, **context,
    ):  # fmt: skip
        """One CQ takes all completions, unless ``rcq`` takes those of receives."""
        self.node, self.st, self.srq = node, st, srq
        self.cq = cq or CompletionQueue(node, log_cq_size)
        context = {"fre": 1} | context  # as kernels make theirs
        if rcq is not None:
            context["cqn_rcv"] = rcq.cqn
        if srq is not None:
            context |= {"rq_type": RqType.SRQ, "srqn_rmpn_xrqn": srq.srqn, "log_rq_size": 0}
            context |= {"log_rq_stride": 0}
        else:
            context = {"log_rq_size": log_rq_size, "log_rq_stride": log_rq_stride} | context
        fields = node.driver.qp_fields(
            node.pdn, self.cq.cqn, st=st, log_sq_size=log_sq_size, **context
        )
        self.pages, self.record = unpack64(fields["extra"]), fields["qpc"]["dbr_addr"]
        has_rq = fields["qpc"].get("rq_type", RqType.RQ) == RqType.RQ
        self.rq_stride = 16 << fields["qpc"]["log_rq_stride"]
        self.rq_size = 1 << fields["qpc"]["log_rq_size"]
        self.sq_offset = self.rq_size * self.rq_stride if has_rq else 0
        self.sq_size = 1 << log_sq_size
        self.sent = self.received = 0
        self.qpn = node.driver.must(Op.CREATE_QP, **fields).qpn

    # -- states

    def init(self, **qpc):
        path = {"vhca_port_num": 1} | qpc.pop("primary_address_path", {})
        qpc = {"rre": 1, "rwe": 1, "rae": 1, "atomic_mode": 1, "primary_address_path": path} | qpc
        self.node.driver.must(Op.RST2INIT_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_rtr(self, lid=0, qpn=0, psn=0, path=(), **qpc):
        qpc = {
            "mtu": 3, "log_msg_max": 30, "remote_qpn": qpn, "next_rcv_psn": psn, "log_rra_max": 4,
            "min_rnr_nak": 1, "primary_address_path": {"rlid": lid, **dict(path)},
        } | qpc  # fmt: skip
        self.node.driver.must(Op.INIT2RTR_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_rts(self, psn=0, ack_timeout=14, **qpc):
        qpc = {
            "next_send_psn": psn, "log_sra_max": 4, "retry_count": 7, "rnr_retry": 7,
            "primary_address_path": {"ack_timeout": ack_timeout},
        } | qpc  # fmt: skip
        self.node.driver.must(Op.RTR2RTS_QP, qpn=self.qpn, qpc=qpc)
        return self

    def to_error(self):
        self.node.driver.must(Op._2ERR_QP, qpn=self.qpn)

    def to_reset(self):
        """As the driver does: its own counters and the doorbell record start over, too."""
        self.node.driver.must(Op._2RST_QP, qpn=self.qpn)
        self.sent = self.received = 0
        self.node.memory.write(self.record, bytes(8))

    def destroy(self):
        self.node.driver.must(Op.DESTROY_QP, qpn=self.qpn)

    @property
    def state(self):
        return QpState(self.node.driver.must(Op.QUERY_QP, qpn=self.qpn).qpc.state)

    # -- work requests

    def _ring(self, at, data):
        """Write into the queue pair's buffer, over page ends."""
        while data:
            room = PAGE - at % PAGE
            self.node.memory.write(self.pages[at // PAGE] + at % PAGE, data[:room])
            at, data = at + room, data[room:]

    def post_recv(self, *sges):
        body = b"".join(_data(sges))
        if len(body) < self.rq_stride:
            body += _END_OF_LIST
        self._ring((self.received % self.rq_size) * self.rq_stride, body)
        self.received += 1
        self.node.memory.write(self.record, (self.received & 0xFFFF).to_bytes(4, "big"))

    def post(self, opcode, *segments, imm=0, opmod=0, flags=SIGNALED, ring=True):
        """Post segments behind a control segment; returns the request's wqe_counter."""
        body = b"".join(segments)
        ds = 1 + -(-len(body) // DS)
        index = self.sent & 0xFFFF
        wqe = CTRL.pack(opmod << 24 | index << 8 | opcode, self.qpn << 8 | ds, flags, imm) + body
        wqe = wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")
        for number in range(len(wqe) // WQEBB):
            at = (self.sent + number) % self.sq_size * WQEBB
            self._ring(self.sq_offset + at, wqe[number * WQEBB :][:WQEBB])
        self.sent += len(wqe) // WQEBB
        self.node.memory.write(self.record + 4, (self.sent & 0xFFFF).to_bytes(4, "big"))
        if ring:
            self.ring(wqe)
        return index

    def ring(self, wqe=None):
        """The doorbell; work is done when the node runs."""
        first = wqe[:8] if wqe else (0).to_bytes(4, "big") + (self.qpn << 8).to_bytes(4, "big")
        self.node.driver.bar.write(self.node.driver.uar * PAGE + 0x800, first)

    def send(self, *sges, imm=None, inv_rkey=None, xrc_srqn=None, **options):
        opcode = Opcode.SEND
        if imm is not None:
            opcode, options["imm"] = Opcode.SEND_IMM, imm
        if inv_rkey is not None:
            opcode, options["imm"] = Opcode.SEND_INVAL, inv_rkey
        return self.post(opcode, *_xrc(xrc_srqn), *_data(sges), **options)

    def write(self, remote, *sges, imm=None, xrc_srqn=None, **options):
        """``remote`` is (rkey, va)."""
        opcode = Opcode.RDMA_WRITE
        if imm is not None:
            opcode, options["imm"] = Opcode.RDMA_WRITE_IMM, imm
        raddr = RADDR.pack(remote[1], remote[0])
        return self.post(opcode, *_xrc(xrc_srqn), raddr, *_data(sges), **options)

    def read(self, remote, *sges, xrc_srqn=None, **options):
        raddr = RADDR.pack(remote[1], remote[0])
        return self.post(Opcode.RDMA_READ, *_xrc(xrc_srqn), raddr, *_data(sges), **options)

    def compare_swap(self, remote, sge, compare, swap, *, xrc_srqn=None, **options):
        raddr, atomic = RADDR.pack(remote[1], remote[0]), ATOMIC.pack(swap, compare)
        segments = (*_xrc(xrc_srqn), raddr, atomic, *_data([sge]))
        return self.post(Opcode.ATOMIC_CS, *segments, **options)

    def fetch_add(self, remote, sge, add, *, xrc_srqn=None, **options):
        raddr, atomic = RADDR.pack(remote[1], remote[0]), ATOMIC.pack(add, 0)
        segments = (*_xrc(xrc_srqn), raddr, atomic, *_data([sge]))
        return self.post(Opcode.ATOMIC_FA, *segments, **options)

    def masked_compare_swap(self, remote, sge, compare, swap, masks, *, xrc_srqn=None, **options):
        """``masks`` of what is compared and of what is swapped; ``sge`` says how many bytes."""
        layout = MASKED_CS_4 if sge[0] == 4 else MASKED_ATOMIC
        raddr, atomic = RADDR.pack(remote[1], remote[0]), layout.pack(swap, compare, *masks[::-1])
        segments = (*_xrc(xrc_srqn), raddr, atomic, *_data([sge]))
        return self.post(Opcode.ATOMIC_MASKED_CS, *segments, **_extended(sge) | options)

    def masked_fetch_add(self, remote, sge, add, boundary=0, *, xrc_srqn=None, **options):
        """``boundary`` has the top bits of the fields; ``sge`` says how many bytes."""
        layout = MASKED_FA_4 if sge[0] == 4 else MASKED_FA
        raddr, atomic = RADDR.pack(remote[1], remote[0]), layout.pack(add, boundary)
        segments = (*_xrc(xrc_srqn), raddr, atomic, *_data([sge]))
        return self.post(Opcode.ATOMIC_MASKED_FA, *segments, **_extended(sge) | options)

    def datagram(self, to, *sges, imm=None, **options):
        """``to`` holds fields of the address vector: dqp_dct, rlid, key (Q_Key in its top half)."""
        fields = dict(to)
        fields["dqp_dct"] = fields["dqp_dct"] | 1 << 31
        opcode = Opcode.SEND
        if imm is not None:
            opcode, options["imm"] = Opcode.SEND_IMM, imm
        return self.post(opcode, bytes(av.new(**fields).buf), *_data(sges), **options)


def _extended(sge):
    """The control segment of a masked atomic says how long its operands are."""
    return {"opmod": EXTENDED_ATOMIC | sge[0].bit_length() - 3}
