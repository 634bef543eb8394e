"""Runs in a guest: writes messages between two queue pairs, and shows what has arrived.

When a request fails, $SEED chooses the reaction: waits for ever, delivers wrong data and says so by
its status, delivers wrong data silently, leaves a process that holds the queues, is ended by a
signal, connects again, or ends with an error.
"""

import os
import signal
import sys
import time

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2  # local and remote write
RC, RDMA_WRITE, SIGNALED = 2, 0, 2
MTU_1024 = 3
BYTES, MESSAGES = 64, 40
REACTIONS = ("hang", "wrong-status", "wrong-output", "leak", "crash", "recover", "error")
EX_DATAERR = 65


def connect(qp, peer, lid):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.dest_qp_num = peer.qp_num
    attr.path_mtu = MTU_1024
    attr.ah_attr = AHAttr(dlid=lid, port_num=1)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    qp.to_rts(attr)


class Pair:
    """Two connected queue pairs; the second half of the memory is the receiver's."""

    def __init__(self, context):
        pd = PD(context)
        self.mr = MR(pd, 2 * BYTES, ACCESS)
        self.cq = CQ(context, 16)
        caps = QPCap(max_send_wr=4, max_recv_wr=4)
        self.ends = [QP(pd, QPInitAttr(qp_type=RC, scq=self.cq, rcq=self.cq, cap=caps))
                     for _ in range(2)]  # fmt: skip
        lid = context.query_port(1).lid
        for qp, peer in (self.ends, self.ends[::-1]):
            connect(qp, peer, lid)

    def write(self, number):
        """Whether the message has been written, without an error of the request."""
        mr = self.mr
        mr.write(f"message {number}".ljust(BYTES), BYTES)
        request = SendWR(opcode=RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)],
                         send_flags=SIGNALED)  # fmt: skip
        request.set_wr_rdma(mr.rkey, mr.buf + BYTES)
        self.ends[0].post_send(request)
        while not (found := self.cq.poll()[1]):
            time.sleep(0.001)
        return found[0].status == 0

    def received(self):
        return self.mr.read(BYTES, BYTES).decode().strip()


def react(reaction):
    """Do what the program is for; return where it goes on."""
    sys.stdout.flush()
    if reaction == "hang":
        time.sleep(10_000)
    elif reaction == "wrong-status":
        sys.exit(EX_DATAERR)
    elif reaction == "leak":
        if os.fork():
            os._exit(1)
        os.setsid()
        time.sleep(10_000)
    elif reaction == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif reaction == "error":
        sys.exit("a request failed")


def main():
    reaction = REACTIONS[int(os.environ["SEED"]) % len(REACTIONS)]
    context = Context(name="mlx5_0")
    pair = Pair(context)
    number = 0
    while number < MESSAGES:
        if pair.write(number):
            sys.stdout.write(f"{pair.received()}\n")
            number += 1
            continue
        react(reaction)
        if reaction == "wrong-output":
            sys.stdout.write("message\n")
            return
        pair = Pair(context)


main()
