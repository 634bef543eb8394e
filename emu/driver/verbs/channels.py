"""Channel from one queue pair to another, with the same methods for each transport service."""

from __future__ import annotations

from typing import Any

from emu.driver.command.answer import expect
from emu.driver.verbs.completions import Found
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.verbs.outcomes import all_good, first_error
from emu.driver.verbs.segments import Remote, Sge
from emu.driver.verbs.shared_queue import SharedQueue
from emu.driver.world.clock import HandClock
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType, RqType

GRH_BYTES = 40
QKEY = 0x1234
_STEP_NS = 1_000_000


class Channel:
    """Queue pairs ``sender`` and ``receiver``; ``recv_cq`` takes the receiver's completions."""

    def __init__(self, service: QpType, left: Node, right: Node, **options: Any) -> None:
        """Connect ``left`` to ``right``; ``options`` are those of ``connect``."""
        self.service, self.left, self.right = service, left, right
        self.srqn: int | None = None
        {QpType.XRC: self._open_xrc, QpType.UD: self._open_ud}.get(service, self._open)(options)

    def _open(self, options: dict[str, Any]) -> None:
        """Create the queue pairs of a connected service and connect them with ``options``."""
        self.recv_cq = self.right.completion_queue()
        self.sender = self.left.queue_pair(self.service)
        self.receiver = self.right.queue_pair(self.service, rcq=self.recv_cq)
        connect(self.sender, self.receiver, **options)

    def _open_ud(self, _options: dict[str, Any]) -> None:
        """Create both UD queue pairs and move them to RTS; options are ignored."""
        self.recv_cq = self.right.completion_queue()
        self.sender = self.left.queue_pair(QpType.UD)
        self.receiver = self.right.queue_pair(QpType.UD, rcq=self.recv_cq)
        for qp in (self.sender, self.receiver):
            qp.init(q_key=QKEY, mtu=5, log_msg_max=12)
            qp.to_rtr(mtu=0, log_msg_max=0)
            qp.to_rts(0x10)

    def _open_xrc(self, options: dict[str, Any]) -> None:
        """Create the XRC domains, the shared queue, both queue pairs, and connect them.

        The option ``log_cq_size`` is that of the CQ of the shared queue.
        """
        self.recv_cq = self.right.completion_queue(*filter(None, [options.pop("log_cq_size", 0)]))
        domain = self.right.driver.must(Op.ALLOC_XRCD).xrcd
        self.srq = SharedQueue(self.right, xrcd=domain, cq=self.recv_cq)
        self.srqn = self.srq.srqn
        self.sender = self.left.queue_pair(
            QpType.XRC, rq_type=RqType.ZERO_LEN_RQ, log_rq_size=0, log_rq_stride=0,
            xrcd=self.left.driver.must(Op.ALLOC_XRCD).xrcd,
        )  # fmt: skip
        # A target names one of the driver's own queues (hw/qp.c: create_xrc_tgt_qp).
        self.receiver = self.right.queue_pair(QpType.XRC, srq=self.srq, xrcd=domain, no_sq=1)
        connect(self.sender, self.receiver, **options)

    @property
    def header(self) -> int:
        """Bytes in front of a received message."""
        return GRH_BYTES if self.service is QpType.UD else 0

    def post_recv(self, *sges: Sge) -> int | None:
        """Post a receive WQE; return its index if the queue is shared, else None.

        Raises DriverError if the shared queue is full.
        """
        if self.srqn is not None:
            return self.srq.post(*sges)
        self.receiver.post_recv(*sges)
        return None

    def send(self, *sges: Sge | bytes, **options: Any) -> int:
        """Post SEND, or a datagram for UD; return the WQE's wqe_counter.

        The option ``to`` replaces fields of a datagram's address vector.
        """
        if self.service is QpType.UD:
            to = {"dqp_dct": self.receiver.qpn, "key": QKEY << 32}
            to |= self.left.vector_to(self.right)
            return self.sender.datagram(to | options.pop("to", {}), *sges, **options)
        return self.sender.send(*sges, xrc_srqn=self.srqn, **options)

    def write(self, remote: Remote, *sges: Sge | bytes, **options: Any) -> int:
        """Post RDMA_WRITE."""
        return self.sender.write(remote, *sges, xrc_srqn=self.srqn, **options)

    def read(self, remote: Remote, *sges: Sge | bytes, **options: object) -> int:
        """Post RDMA_READ."""
        return self.sender.read(remote, *sges, xrc_srqn=self.srqn, **options)

    def compare_swap(self, *args: Any, **options: Any) -> int:
        """Post an atomic like :meth:`WorkRequests.compare_swap`."""
        return self.sender.compare_swap(*args, xrc_srqn=self.srqn, **options)

    def fetch_add(self, *args: Any, **options: Any) -> int:
        """Post an atomic like :meth:`WorkRequests.fetch_add`."""
        return self.sender.fetch_add(*args, xrc_srqn=self.srqn, **options)

    def masked_compare_swap(self, *args: Any, **options: Any) -> int:
        """Post an atomic like :meth:`WorkRequests.masked_compare_swap`."""
        return self.sender.masked_compare_swap(*args, xrc_srqn=self.srqn, **options)

    def masked_fetch_add(self, *args: Any, **options: Any) -> int:
        """Post an atomic like :meth:`WorkRequests.masked_fetch_add`."""
        return self.sender.masked_fetch_add(*args, xrc_srqn=self.srqn, **options)

    def settle(self) -> None:
        """Let the devices do all their work."""
        self.left.settle()

    def sent(self) -> list[Found]:
        """Return the sender's pending completions. Raises DriverError if one has an error."""
        return all_good(self.sender.cq)

    def received(self) -> list[Found]:
        """Return the receiver's pending completions. Raises DriverError if one has an error."""
        return all_good(self.recv_cq)

    def until_sent(self, clock: HandClock, requests: int, most_ns: int) -> int:
        """Advance the clock until ``requests`` WQEs are complete; return the time in nanoseconds.

        Raises DriverError when that takes ``most_ns``, and for a completion with an error.
        """
        begin = clock.ns
        self.settle()
        while requests := requests - len(self.sent()):
            expect(clock.ns - begin < most_ns, "the requests do not complete")
            clock.advance(_STEP_NS)
            self.settle()
        return clock.ns - begin

    def failure(self) -> int:
        """Run the devices; return the syndrome of the sender's first completion with an error.

        Raises DriverError if none failed, or if the first error is not REQ_ERR.
        """
        self.settle()
        return first_error(self.sender.cq, CqeOpcode.REQ_ERR)

    def receive_failure(self) -> int:
        """Return the syndrome of the receiver's first completion with an error.

        Raises DriverError if none failed, or if the first error is not RESP_ERR. The devices are
        not run.
        """
        return first_error(self.recv_cq, CqeOpcode.RESP_ERR)
