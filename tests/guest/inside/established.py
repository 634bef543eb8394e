"""Runs in a guest: WRITEs to a queue pair that is in RTR; prints the types of events that come."""

import os
import select
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
SECONDS = 30


def attributes(peer, lid):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = ACCESS
    attr.dest_qp_num = peer.qp_num
    attr.path_mtu = MTU_2048
    attr.ah_attr = AHAttr(dlid=lid, port_num=1)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    return attr


def async_fd():
    """The descriptor of the context's events, which pyverbs keeps to itself."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # that of the folder itself
            continue
        if "infinibandevent" in target:
            return int(name)
    raise LookupError("no descriptor of events")


def main():
    context = Context(name="mlx5_0")
    pd = PD(context)
    mr = MR(pd, 2 * BYTES, ACCESS)
    cq = CQ(context, 16)
    caps = QPCap(max_send_wr=4, max_recv_wr=4)
    sender, receiver = (QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=caps)) for _ in range(2))
    lid = context.query_port(1).lid
    sender.to_rts(attributes(receiver, lid))
    receiver.to_rtr(attributes(sender, lid))
    for _ in range(2):
        request = SendWR(opcode=RDMA_WRITE, num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)])
        request.set_wr_rdma(mr.rkey, mr.buf + BYTES)
        sender.post_send(request)
        while not cq.poll()[0]:
            pass
    found = []
    events = async_fd()
    while select.select([events], [], [], SECONDS if not found else 1)[0]:
        event = context.get_async_event()
        found.append(int(event.event_type))
        event.ack()
    sys.stdout.write(f"{found}\n")


main()
