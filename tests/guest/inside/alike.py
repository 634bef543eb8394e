"""Runs in a guest: connections from mlx5_0 to mlx5_1 with attributes that are not right.

Prints a line for each: its name, and the status of every completion of the requester, in order.
"""

import sys
import time

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2 | 4 | 8  # local and remote write, remote read, atomics
RC, UC = 2, 3
RDMA_WRITE, SEND, RDMA_READ = 0, 2, 4
MTU_256, MTU_1024, MTU_4096 = 1, 3, 5
SIZE, SIGNALED, SECONDS, TRIES = 8192, 1 << 1, 30, 10
ANOTHER, LIMITED, EMPTY = 1, 2, 9
WRONG = GID("fe80:0000:0000:0000:0000:0000:0000:0077")


class Side:
    """A function, with one region and one completion queue."""

    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, ACCESS)
        self.cq = CQ(self.context, 64)
        self.lid = self.context.query_port(1).lid
        self.gid = self.context.query_gid(1, 0)

    def queue_pair(self, service):
        caps = QPCap(max_send_wr=16, max_recv_wr=16)
        return QP(self.pd, QPInitAttr(qp_type=service, scq=self.cq, rcq=self.cq, cap=caps))

    def sge(self, length):
        return SGE(self.mr.buf, length, self.mr.lkey)


def connect(qp, peer, side, mtu=MTU_1024, pkey=0, dgid=None, qpn=0, psn=0, reads=16, serves=16):
    """``side`` is the peer's."""
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.pkey_index, attr.path_mtu, attr.dest_qp_num = pkey, mtu, peer.qp_num ^ qpn
    attr.sq_psn, attr.rq_psn = psn, 0
    route = GlobalRoute(dgid=dgid, sgid_index=0) if dgid else None
    attr.ah_attr = AHAttr(dlid=side.lid, port_num=1, is_global=int(bool(dgid)), gr=route)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 10, 1, 1
    attr.max_rd_atomic, attr.max_dest_rd_atomic = reads, serves
    qp.to_rts(attr)


def request(opcode, left, right, size):
    wr = SendWR(opcode=opcode, num_sge=1, sg=[left.sge(size)], send_flags=SIGNALED)
    if opcode != SEND:
        wr.set_wr_rdma(right.mr.rkey, right.mr.buf)
    return wr


def statuses(side, count):
    """Those of the next completions, fewer when no more come."""
    found, end = [], time.monotonic() + SECONDS
    while len(found) < count and time.monotonic() < end:
        found += [one.status for one in side.cq.poll(count)[1]]
    return found


def attempt(left, right, service, work, mine, its):
    one, two = left.queue_pair(service), right.queue_pair(service)
    connect(one, two, right, **mine)
    connect(two, one, left, **its)
    for _ in range(4):
        two.post_recv(RecvWR(sg=[right.sge(SIZE)], num_sge=1))
    for opcode, size in work:
        one.post_send(request(opcode, left, right, size))
    found = statuses(left, len(work))
    one.close()
    two.close()
    while right.cq.poll(16)[0]:
        pass
    return found


def say(name, found):
    sys.stdout.write(": ".join([name, *map(str, found)]) + "\n")


def main():
    left, right = Side("mlx5_0"), Side("mlx5_1")
    short = [(SEND, 64), (RDMA_WRITE, 64)]
    programs = {
        "right": ([*short, (RDMA_READ, SIZE)], {}, {}),
        "another partition": (short, {"pkey": ANOTHER}, {}),
        "the same partition": (short, {"pkey": ANOTHER}, {"pkey": ANOTHER}),
        "two limited members": (short, {"pkey": LIMITED}, {"pkey": LIMITED}),
        "empty P_Key": (short, {"pkey": EMPTY}, {"pkey": EMPTY}),
        "unequal MTUs": ([(SEND, 64), (SEND, 4096)], {"mtu": MTU_4096}, {"mtu": MTU_256}),
        "READ, unequal MTUs": ([(RDMA_READ, 4096)], {"mtu": MTU_4096}, {"mtu": MTU_256}),
        "GRH": (short, {"dgid": right.gid}, {"dgid": left.gid}),
        "GRH of one": (short, {"dgid": right.gid}, {}),
        "wrong GID": (short, {"dgid": WRONG}, {"dgid": left.gid}),
        "wrong number": (short, {"qpn": 0x8000}, {}),
        "wrong PSN": (short, {"psn": 1}, {}),
        "many READs": ([(RDMA_READ, SIZE)] * 8, {"reads": 16}, {"serves": 1}),
    }
    for name, (work, mine, its) in programs.items():
        found = attempt(left, right, RC, work, mine, its)
        for _ in range(TRIES):
            if name != "many READs" or any(found):
                break
            # A busy machine has answered each before the next was posted.
            found = attempt(left, right, RC, work, mine, its)
        say(name, found)
    work = [(SEND, 64), (RDMA_WRITE, 64)]
    for name, mine in (("UC", {}), ("UC, another partition", {"pkey": ANOTHER})):
        say(name, attempt(left, right, UC, work, mine, {}))


main()
