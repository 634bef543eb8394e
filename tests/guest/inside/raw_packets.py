"""Runs in a guest: raw packet queue pairs of one RDMA device, and what they hear.

``sniff ROCE_GID_INDEX``: a sniffer (IBV_FLOW_ATTR_SNIFFER), as libpcap has it, listens while two
connected queue pairs of the same process exchange a message; afterwards it is destroyed and they
exchange another one. Prints the UDP destination port and the length of each packet that it gets.

``group``: whether a multicast is heard that another queue pair sends: of the same context while
there is no other one, of the same while there is another one, and of the other one. Prints a line
for each.

``flows [NUMBER]``: which kinds of flows mlx5_NUMBER takes, by default mlx5_0. Prints a line for
each.
"""

import sys
import time

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.flow import Flow, FlowAttr
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.spec import EthSpec
from pyverbs.wr import SGE, RecvWR, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2  # local and remote write
RC, RAW_PACKET = 2, 8
SEND = 2
INIT, RTR, RTS = 1, 2, 3
NORMAL, ALL_DEFAULT, MC_DEFAULT, SNIFFER = 0, 1, 2, 3
DONT_TRAP, EGRESS = 1 << 1, 1 << 2
SIGNALED = 2
MTU_1024 = 3
BUFFER, BUFFERS = 4096, 64
GROUP_MAC = "01:00:5e:01:02:03"
SECONDS = 20


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def completion(cq, seconds=SECONDS):
    """The next completion; None when there is none."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number, found = cq.poll()
        if number:
            assert not found[0].status, found[0]
            return found[0]
        time.sleep(0.01)
    return None


class RawPackets:
    """A raw packet queue pair with receive buffers."""

    def __init__(self, context):
        self.pd = PD(context)
        self.cq = CQ(context, 2 * BUFFERS)
        self.mr = MR(self.pd, BUFFER * BUFFERS, ACCESS)
        cap = QPCap(max_send_wr=4, max_recv_wr=BUFFERS)
        self.qp = QP(self.pd, QPInitAttr(qp_type=RAW_PACKET, scq=self.cq, rcq=self.cq, cap=cap))
        attr = QPAttr(port_num=1)
        self.qp.to_rts(attr)
        for at in range(BUFFERS):
            self.qp.post_recv(RecvWR(wr_id=at, num_sge=1, sg=[self.sge(at)]))

    def sge(self, at, size=BUFFER):
        return SGE(self.mr.buf + BUFFER * at, size, self.mr.lkey)

    def frames(self, seconds):
        """Frames that come until none has come for so long."""
        while (done := completion(self.cq, seconds)) is not None:
            yield self.mr.read(done.byte_len, done.wr_id * BUFFER)

    def send(self, frame):
        self.mr.write(frame, len(frame))
        self.qp.post_send(
            SendWR(opcode=SEND, num_sge=1, sg=[self.sge(0, len(frame))], send_flags=SIGNALED)
        )
        assert completion(self.cq) is not None


class Pair:
    """Two connected queue pairs of one context."""

    def __init__(self, context, index):
        pd = PD(context)
        self.mr = MR(pd, 2 * BUFFER, ACCESS)
        self.cq = CQ(context, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        self.ends = [
            QP(pd, QPInitAttr(qp_type=RC, scq=self.cq, rcq=self.cq, cap=cap)) for _ in range(2)
        ]
        gid = context.query_gid(1, index)
        for qp, peer in (self.ends, self.ends[::-1]):
            attr = QPAttr(port_num=1)
            attr.qp_access_flags = ACCESS
            attr.dest_qp_num = peer.qp_num
            attr.path_mtu = MTU_1024
            route = GlobalRoute(dgid=gid, sgid_index=index, hop_limit=1)
            attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
            qp.to_rts(attr)

    def exchange(self, size):
        sender, receiver = self.ends
        mr = self.mr
        receiver.post_recv(RecvWR(num_sge=1, sg=[SGE(mr.buf + BUFFER, BUFFER, mr.lkey)]))
        sender.post_send(
            SendWR(opcode=SEND, num_sge=1, sg=[SGE(mr.buf, size, mr.lkey)], send_flags=SIGNALED)
        )
        assert all(completion(self.cq) is not None for _ in range(2))


def flow_to(raw, kind=NORMAL, flags=0, specs=()):
    attr = FlowAttr(num_of_specs=len(specs), flow_type=kind, port=1, flags=flags)
    for spec in specs:
        attr.specs.append(spec)
    return Flow(raw.qp, attr)


def to_group():
    return EthSpec(dst_mac=GROUP_MAC, dst_mac_mask="ff:ff:ff:ff:ff:ff")


def sniff(index):
    context = Context(name="mlx5_0")
    raw, pair = RawPackets(context), Pair(context, index)
    sniffer = flow_to(raw, SNIFFER)
    pair.exchange(3000)
    for frame in raw.frames(1):
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            say("udp", int.from_bytes(frame[36:38], "big"), len(frame))
        elif frame[12:14] == b"\x89\x15":
            say("roce v1", len(frame))
    sniffer.close()
    pair.exchange(3000)
    say("afterwards", len([*raw.frames(1)]))


def heard(listener, speaker):
    frame = (
        bytes.fromhex(GROUP_MAC.replace(":", "")) + bytes.fromhex("02000000000188b5") + b"x" * 60
    )
    speaker.send(frame)
    return frame in [*listener.frames(1)]


def group():
    one = Context(name="mlx5_0")
    listener, speaker = RawPackets(one), RawPackets(one)
    flow = flow_to(listener, specs=[to_group()])
    say("alone", heard(listener, speaker))
    two = Context(name="mlx5_0")
    say("two contexts", heard(listener, speaker))
    say("itself", heard(listener, listener))
    other = RawPackets(two)
    say("from the other", heard(listener, other))
    other.qp.close()
    two.close()
    say("alone again", heard(listener, speaker))
    flow.close()


def flows(number=0):
    context = Context(name=f"mlx5_{number}")
    raw = RawPackets(context)
    kinds = {
        "normal": {"specs": [to_group()]},
        "normal without specs": {},
        "all default": {"kind": ALL_DEFAULT},
        "mc default": {"kind": MC_DEFAULT},
        "sniffer": {"kind": SNIFFER},
        "dont trap": {"flags": DONT_TRAP, "specs": [to_group()]},
        "egress": {"flags": EGRESS, "specs": [to_group()]},
        "all default, dont trap": {"kind": ALL_DEFAULT, "flags": DONT_TRAP},
        "mc default, dont trap": {"kind": MC_DEFAULT, "flags": DONT_TRAP},
    }
    for name, options in kinds.items():
        try:
            flow_to(raw, **options).close()
        except PyverbsError as error:
            say(f"{name}:", error)
        else:
            say(f"{name}: taken")


if __name__ == "__main__":
    word, *rest = sys.argv[1:]
    {"sniff": sniff, "group": group, "flows": flows}[word](*map(int, rest))
