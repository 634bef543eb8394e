"""Runs in two guests: every kind of RC message between them, its data compared byte by byte.

Without an argument it serves, with the server's address it is the client. They say each other where
they are over TCP; after that only the connection's end matters there. DEVICE in the environment is
the adapter, GID_INDEX its GID: without one, the two are on one InfiniBand subnet.
"""

import json
import os
import socket
import sys

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 7000
SIZE = 1 << 20
LENGTHS = (1, 4095, 4096, 4097, 65536, SIZE)
# From verbs.h: pyverbs' names for these have moved between its versions.
ACCESS = 1 | 2 | 4 | 8  # local and remote write, remote read, remote atomic
RC = 2
SUCCESS = 0
RDMA_WRITE, SEND, RDMA_READ, COMPARE_SWAP, FETCH_ADD = 0, 2, 4, 5, 6


class End:
    """A queue pair and its memory: the first half is sent from, the second half received into."""

    def __init__(self, sock):
        # One file for both ways would forget what it has read ahead whenever it writes.
        self.reader, self.writer = sock.makefile("r"), sock.makefile("w")
        self.context = Context(name=os.environ.get("DEVICE", "mlx5_0"))
        port = self.context.query_port(1)
        index = os.environ.get("GID_INDEX")
        gid = "" if index is None else str(self.context.query_gid(1, int(index)))
        self.pd = PD(self.context)
        self.mr = MR(self.pd, 2 * SIZE, ACCESS)
        self.cq = CQ(self.context, 64)
        caps = QPCap(max_send_wr=16, max_recv_wr=16)
        # With sq_sig_all mlx5 has old values of atomics in completions, where they are big-endian.
        asked = QPInitAttr(qp_type=RC, scq=self.cq, rcq=self.cq, cap=caps, sq_sig_all=0)
        self.qp = QP(self.pd, asked)
        self.peer = self.exchange(
            {"lid": port.lid, "gid": gid, "mtu": port.active_mtu, "qpn": self.qp.qp_num,
             "rkey": self.mr.rkey, "va": self.mr.buf}
        )  # fmt: skip
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS
        attr.dest_qp_num = self.peer["qpn"]
        attr.path_mtu = min(port.active_mtu, self.peer["mtu"])
        attr.ah_attr = AHAttr(dlid=self.peer["lid"], port_num=1)
        if gid:
            route = GlobalRoute(dgid=GID(self.peer["gid"]), sgid_index=int(index))
            attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 17, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        self.qp.to_rts(attr)
        self.exchange("ready")

    def exchange(self, mine):
        """Tell the other side, and hear what it tells."""
        self.writer.write(json.dumps(mine) + "\n")
        self.writer.flush()
        return json.loads(self.reader.readline())

    def wait(self):
        """The next completion, which has to be good."""
        while True:
            count, found = self.cq.poll()
            if count:
                assert found[0].status == SUCCESS, found[0]
                return found[0]

    def post(self, opcode, length, *atomic):
        request = SendWR(opcode=opcode, num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)])
        remote = self.peer["va"] + SIZE
        if atomic:
            request.set_wr_atomic(self.peer["rkey"], remote, *atomic)
        elif opcode != SEND:
            request.set_wr_rdma(self.peer["rkey"], remote)
        self.qp.post_send(request)
        self.wait()

    def receive(self):
        self.qp.post_recv(RecvWR(sg=[SGE(self.mr.buf + SIZE, SIZE, self.mr.lkey)], num_sge=1))


def pattern(length, seed):
    unit = bytes((seed + at * 7) & 0xFF for at in range(251))
    return (unit * (length // len(unit) + 1))[:length]


def client(end):
    mr = end.mr
    for number, length in enumerate(LENGTHS):
        for opcode in (RDMA_WRITE, SEND):
            text = pattern(length, 3 * number + opcode)
            mr.write(text, length)
            end.exchange(length)
            end.post(opcode, length)
            end.exchange([number, opcode])
        end.exchange("reading")
        mr.write(bytes(length), length)
        end.post(RDMA_READ, length)
        assert mr.read(length, 0) == pattern(length, 99 + number)
        end.exchange("read")
    end.exchange("atomics")
    for number in range(10):
        end.post(FETCH_ADD, 8, 5, 0)
        assert int.from_bytes(mr.read(8, 0), sys.byteorder) == 5 * number
    end.post(COMPARE_SWAP, 8, 50, 1 << 60)
    end.post(COMPARE_SWAP, 8, 50, 2)
    assert int.from_bytes(mr.read(8, 0), sys.byteorder) == 1 << 60
    end.exchange("done")
    sys.stdout.write("verified\n")


def server(end):
    mr = end.mr
    for number, _ in enumerate(LENGTHS):
        for opcode in (RDMA_WRITE, SEND):
            mr.write(bytes(SIZE), SIZE, SIZE)
            if opcode == SEND:
                end.receive()
            length = end.exchange("ready")
            if opcode == SEND:
                assert end.wait().byte_len == length
            assert end.exchange("seen") == [number, opcode]
            assert mr.read(length, SIZE) == pattern(length, 3 * number + opcode)
            assert not any(mr.read(SIZE - length, SIZE + length) if length < SIZE else b"")
        text = pattern(LENGTHS[number], 99 + number)
        mr.write(text, len(text), SIZE)
        end.exchange("ready")
        end.exchange("read on")
    mr.write(bytes(8), 8, SIZE)
    end.exchange("ready")
    assert end.exchange("done") == "done"
    assert int.from_bytes(mr.read(8, SIZE), sys.byteorder) == 1 << 60


def main():
    if len(sys.argv) > 1:
        with socket.create_connection((sys.argv[1], PORT)) as sock:
            client(End(sock))
    else:
        with socket.create_server(("", PORT)) as listener, listener.accept()[0] as sock:
            server(End(sock))


main()
