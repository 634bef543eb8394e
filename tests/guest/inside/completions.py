"""Runs in a guest: short messages, READs and atomics through libmlx5, looked at before polling.

Prints the version of completions, and for each kind and length whether the data have come to memory
before the completion was polled ("memory"), or only with it ("completion").

With completions of 128 bytes, libmlx5 took answers from a wrong place until rdma-core 63
(https://github.com/linux-rdma/rdma-core/pull/1743), so that there are no READs and atomics then.
"""

import os
import sys
import time

from pyverbs.addr import AHAttr
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.providers.mlx5.mlx5dv import Mlx5Context, Mlx5DVContextAttr
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2 | 4 | 8  # local write, remote write, read and atomic
RC = 2
SEND, READ, FETCH_ADD = 2, 4, 6
SIGNALED = 2
MTU_2048 = 4
VERSION_1 = 1  # mlx5dv.h: MLX5DV_CONTEXT_FLAGS_CQE_V1
LENGTHS = 1, 32, 33, 64, 65
HALF = 256
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


class Ends:
    """Two queue pairs with a CQ each; the second half of their memory is the peer's."""

    def __init__(self, context):
        pd = PD(context)
        self.mr = MR(pd, 2 * HALF, ACCESS)
        self.channel = CompChannel(context)
        self.cqs = CQ(context, 16, channel=self.channel), CQ(context, 16)
        caps = QPCap(max_send_wr=4, max_recv_wr=4)
        self.one, self.two = (
            QP(pd, QPInitAttr(qp_type=RC, scq=cq, rcq=cq, cap=caps, sq_sig_all=1))
            for cq in self.cqs
        )
        lid = context.query_port(1).lid
        self.one.to_rts(attributes(self.two, lid))
        self.two.to_rts(attributes(self.one, lid))

    def sge(self, at, length):
        return [SGE(self.mr.buf + at, length, self.mr.lkey)]

    def wait(self, which):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            count, found = self.cqs[which].poll()
            if count:
                assert found[0].status == 0, found[0]
                return found[0]
        raise TimeoutError("no completion")

    def found(self, at, length):
        return self.mr.read(length, at)

    def fill(self, at, length, what=None):
        data = what if what is not None else bytes(range(1, length + 1))
        self.mr.write(data, length, at)
        return data


def place(ends, at, data, which, from_completion=None):
    """Where the data are when the peer has done its part, and that they come in the end.

    ``from_completion`` is what libmlx5 then copies out of the completion, if not the same.
    """
    early = ends.found(at, len(data))
    done = ends.wait(which)
    assert done.byte_len == len(data), done
    if early == data:
        assert ends.found(at, len(data)) == data
        return "memory"
    assert not any(early), early
    assert ends.found(at, len(data)) == (from_completion or data)
    return "completion"


def send(ends, length):
    ends.fill(HALF, HALF, bytes(HALF))
    data = ends.fill(0, length)
    ends.two.post_recv(RecvWR(num_sge=1, sg=ends.sge(HALF, HALF)))
    ends.one.post_send(SendWR(opcode=SEND, num_sge=1, sg=ends.sge(0, length)))
    ends.wait(0)
    return place(ends, HALF, data, 1)


def fetch(ends, length, opcode=READ):
    """A READ has no other end to wait for, but an event that tells of its completion."""
    ends.fill(0, HALF, bytes(HALF))
    data = ends.fill(HALF, length)
    request = SendWR(opcode=opcode, num_sge=1, sg=ends.sge(0, length))
    if opcode == FETCH_ADD:
        request.set_wr_atomic(ends.mr.rkey, ends.mr.buf + HALF, 1, 0)
    else:
        request.set_wr_rdma(ends.mr.rkey, ends.mr.buf + HALF)
    ends.cqs[0].req_notify()
    ends.one.post_send(request)
    ends.channel.get_cq_event(ends.cqs[0])
    ends.cqs[0].ack_events(1)
    # A completion has an atomic's old value big-endian, and libmlx5 leaves it so.
    swapped = int.from_bytes(data, sys.byteorder).to_bytes(length, "big")
    return place(ends, 0, data, 0, swapped if opcode == FETCH_ADD else None)


def main():
    context = Mlx5Context(Mlx5DVContextAttr(), name="mlx5_0")
    ends = Ends(context)
    lines = [f"version {context.query_mlx5_device().flags & VERSION_1}"]
    lines += [f"send {length}: {send(ends, length)}" for length in LENGTHS]
    if os.environ["MLX5_CQE_SIZE"] == "64":
        lines += [f"read {length}: {fetch(ends, length)}" for length in LENGTHS]
        lines.append(f"atomic 8: {fetch(ends, 8, FETCH_ADD)}")
    sys.stdout.write("\n".join(lines) + "\n")


main()
