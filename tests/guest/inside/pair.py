"""Runs in a guest: two queue pairs that are connected with each other, one writes to the other.

Prints the number of the one that is written to, then a line for each WRITE; it makes one for each
line that it reads, and ends with its input.
"""

import sys

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2  # local and remote write
RC, RDMA_WRITE = 2, 0
MTU_2048 = 4
BYTES = 64


def connect(qp, peer, lid):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.dest_qp_num = peer.qp_num
    attr.path_mtu = MTU_2048
    attr.ah_attr = AHAttr(dlid=lid, port_num=1)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    qp.to_rts(attr)


def say(what):
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main():
    context = Context(name="mlx5_0")
    pd = PD(context)
    mr = MR(pd, 2 * BYTES, ACCESS)
    cq = CQ(context, 16)
    caps = QPCap(max_send_wr=4, max_recv_wr=4)
    pair = [QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=caps)) for _ in range(2)]
    lid = context.query_port(1).lid
    for qp, peer in (pair, pair[::-1]):
        connect(qp, peer, lid)
    say(pair[1].qp_num)
    for _ in sys.stdin:
        request = SendWR(opcode=RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)])
        request.set_wr_rdma(mr.rkey, mr.buf + BYTES)
        pair[0].post_send(request)
        while not cq.poll()[0]:
            pass
        say("written")


main()
