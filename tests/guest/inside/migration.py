"""Runs in a guest: two queue pairs with alternate paths are armed, and one of them migrates.

Prints their states, whether their path has a global route, and the events that come.
"""

import os
import select
import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
RC, SEND, RTS, MTU_2048 = 2, 2, 3, 4
LOCAL_WRITE = 1
QP_STATE, ALT_PATH, PATH_MIG_STATE = 1 << 0, 1 << 14, 1 << 18
MIGRATED, REARM, ARMED = 0, 1, 2
STATES = {MIGRATED: "migrated", REARM: "rearm", ARMED: "armed"}
BYTES = 64


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


def attributes(peer, lid):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = LOCAL_WRITE
    attr.dest_qp_num = peer.qp_num
    attr.path_mtu = MTU_2048
    attr.ah_attr = AHAttr(dlid=lid, port_num=1)
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    return attr


def rearm(qp, lid, gid):
    """Load the path with a global route."""
    attr = QPAttr(qp_state=RTS, cur_qp_state=RTS, port_num=1)
    attr.alt_ah_attr = AHAttr(
        dlid=lid, port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0)
    )
    attr.alt_port_num, attr.alt_timeout = 1, 14
    attr.path_mig_state = REARM
    qp.modify(attr, QP_STATE | ALT_PATH | PATH_MIG_STATE)


def migrate(qp):
    attr = QPAttr(qp_state=RTS, cur_qp_state=RTS, port_num=1)
    attr.path_mig_state = MIGRATED
    qp.modify(attr, QP_STATE | PATH_MIG_STATE)


def told(qp):
    attr, _ = qp.query(PATH_MIG_STATE | 1 << 7)
    where = "global" if attr.ah_attr.is_global else "local"
    return f"{STATES[attr.path_mig_state]} {where}"


def main():
    context = Context(name="mlx5_0")
    pd = PD(context)
    mr = MR(pd, 2 * BYTES, LOCAL_WRITE)
    cq = CQ(context, 16)
    caps = QPCap(max_send_wr=4, max_recv_wr=4)
    one, two = (QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=caps)) for _ in range(2))
    lid, gid = context.query_port(1).lid, context.query_gid(1, 0)
    one.to_rts(attributes(two, lid))
    two.to_rts(attributes(one, lid))

    def send():
        two.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf + BYTES, BYTES, mr.lkey)]))
        one.post_send(SendWR(opcode=SEND, num_sge=1, sg=[SGE(mr.buf, BYTES, mr.lkey)]))
        left = 2
        while left:
            count, found = cq.poll(2)
            assert all(done.status == 0 for done in found), found
            left -= count

    send()
    for qp in (one, two):
        rearm(qp, lid, gid)
    lines = [told(one)]
    send()
    lines += [told(one), told(two)]
    migrate(one)
    send()
    lines += [told(one), told(two)]
    events = async_fd()
    while select.select([events], [], [], 1)[0]:
        event = context.get_async_event()
        lines.append(f"event {int(event.event_type)}")
        event.ack()
    sys.stdout.write("\n".join(lines) + "\n")


main()
