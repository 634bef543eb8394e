"""A way from one queue pair to another, the same to use whatever service it is made of."""

from __future__ import annotations

from emu.driver.verbs.completions import ERRORS
from emu.driver.verbs.connect import connect
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums import CqeOpcode, Op, QpType, RqType

GRH_BYTES = 40
QKEY = 0x1234
_STEP_NS = 1_000_000


class Channel:
    """``sender`` and ``receiver`` are queue pairs; ``recv_cq`` takes the receiver's completions."""

    def __init__(self, service, left, right, **options):
        self.service, self.left, self.right = service, left, right
        self.srqn = None
        {QpType.XRC: self._open_xrc, QpType.UD: self._open_ud}.get(service, self._open)(options)

    def _open(self, options):
        self.recv_cq = self.right.completion_queue()
        self.sender = self.left.queue_pair(self.service)
        self.receiver = self.right.queue_pair(self.service, rcq=self.recv_cq)
        connect(self.sender, self.receiver, **options)

    def _open_ud(self, _options):
        self.recv_cq = self.right.completion_queue()
        self.sender = self.left.queue_pair(QpType.UD)
        self.receiver = self.right.queue_pair(QpType.UD, rcq=self.recv_cq)
        for qp in (self.sender, self.receiver):
            qp.init(q_key=QKEY, mtu=5, log_msg_max=12)
            qp.to_rtr(mtu=0, log_msg_max=0)
            qp.to_rts(0x10)

    def _open_xrc(self, options):
        """``log_cq_size`` is that of the CQ which the shared queue reports to."""
        self.recv_cq = self.right.completion_queue(*filter(None, [options.pop("log_cq_size", 0)]))
        domain = self.right.driver.must(Op.ALLOC_XRCD).xrcd
        self.srq = SharedQueue(self.right, xrcd=domain, cq=self.recv_cq)
        self.srqn = self.srq.srqn
        self.sender = self.left.queue_pair(
            QpType.XRC, rq_type=RqType.ZERO_LEN_RQ, log_rq_size=0, log_rq_stride=0,
            xrcd=self.left.driver.must(Op.ALLOC_XRCD).xrcd,
        )  # fmt: skip
        # A target names some queue of the driver's own (hw/qp.c: create_xrc_tgt_qp).
        self.receiver = self.right.queue_pair(QpType.XRC, srq=self.srq, xrcd=domain, no_sq=1)
        connect(self.sender, self.receiver, **options)

    @property
    def header(self):
        """Bytes in front of a received message."""
        return GRH_BYTES if self.service is QpType.UD else 0

    def post_recv(self, *sges):
        queue = self.receiver if self.srqn is None else self.srq
        return queue.post_recv(*sges) if self.srqn is None else queue.post(*sges)

    def send(self, *sges, **options):
        if self.service is QpType.UD:
            to = {"dqp_dct": self.receiver.qpn, "key": QKEY << 32}
            to |= self.left.vector_to(self.right)
            return self.sender.datagram(to | options.pop("to", {}), *sges, **options)
        return self.sender.send(*sges, xrc_srqn=self.srqn, **options)

    def write(self, *args, **options):
        return self.sender.write(*args, xrc_srqn=self.srqn, **options)

    def read(self, *args, **options):
        return self.sender.read(*args, xrc_srqn=self.srqn, **options)

    def compare_swap(self, *args, **options):
        return self.sender.compare_swap(*args, xrc_srqn=self.srqn, **options)

    def fetch_add(self, *args, **options):
        return self.sender.fetch_add(*args, xrc_srqn=self.srqn, **options)

    def masked_compare_swap(self, *args, **options):
        return self.sender.masked_compare_swap(*args, xrc_srqn=self.srqn, **options)

    def masked_fetch_add(self, *args, **options):
        return self.sender.masked_fetch_add(*args, xrc_srqn=self.srqn, **options)

    def settle(self):
        self.left.settle()

    def sent(self):
        """Completions of the sender, which must all be good."""
        found = self.sender.cq.drain()
        assert not [completion for completion in found if completion.opcode in ERRORS], found
        return found

    def received(self):
        """Completions of the receiver, which must all be good."""
        found = self.recv_cq.drain()
        assert not [completion for completion in found if completion.opcode in ERRORS], found
        return found

    def until_sent(self, clock, requests, most_ns):
        """Let time go by until so many requests are complete; return how much, in nanoseconds."""
        begin = clock.ns
        self.settle()
        while requests := requests - len(self.sent()):
            assert clock.ns - begin < most_ns, "it never completes"
            clock.advance(_STEP_NS)
            self.settle()
        return clock.ns - begin

    def failure(self):
        """The syndrome of the one request that failed; what follows it was flushed."""
        self.settle()
        return _first_error(self.sender.cq, CqeOpcode.REQ_ERR)

    def receive_failure(self):
        """The syndrome of the one receive request that failed."""
        return _first_error(self.recv_cq, CqeOpcode.RESP_ERR)


def _first_error(queue, opcode):
    errors = [found for found in queue.drain() if found.opcode in ERRORS]
    assert errors, "nothing failed"
    assert errors[0].opcode == opcode
    return errors[0].syndrome
