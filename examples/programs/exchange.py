#!/usr/bin/env python3
"""Exchanges data between two hosts over RoCE, and verifies every byte.

    python3 exchange.py               on the first host, which waits for the second
    python3 exchange.py 10.0.0.1      on the second, with the first one's address

From then on both do the same. Each makes a queue pair (QP) of the type reliable connection (RC)
and tells the other over TCP how to reach it. Then each asks its own adapter for two transfers:

  RDMA WRITE   puts data into memory of the peer, whose program takes no part in it;
  SEND         puts data into the memory that the peer has posted for it, and tells the peer.

The line at the end says what came. The exit status is 1 if that is not what the peer sent, or if a
step fails. exchange.c is the same in C; each can be the other's peer.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import time

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

# Values of infiniband/verbs.h; pyverbs has moved its names of them from version to version.
IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE = 1, 2
IBV_GID_TYPE_SYSFS_ROCE_V2 = 1
IBV_MTU_1024 = 3
IBV_QPT_RC = 2
IBV_WC_SUCCESS = 0
IBV_WR_RDMA_WRITE, IBV_WR_SEND = 0, 2

TCP_PORT = 18515
ADAPTER_PORT = 1  # the adapter's first
SEND_SIZE, WRITE_SIZE = 20_000, 300_000  # bytes: many packets each, and no multiple of a packet's
FIRST, SECOND = 1, 2
SECONDS = 60  # for the peer to come, and for the transfers


def pattern(host: int, size: int) -> bytes:
    """Return what a host sends: no part of 256 bytes is like the one before."""
    return bytes((i + i // 256 * 7 + host * 85) & 255 for i in range(size))


def meet(address: str | None) -> socket.socket:
    """Return the TCP connection to the other host."""
    if address is None:
        with socket.create_server(("", TCP_PORT)) as server:
            return server.accept()[0]
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection((address, TCP_PORT))
        except ConnectionRefusedError:  # the first host's program has just been started, perhaps
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def find_gid(address: str) -> tuple[Context, int, str]:
    """Return the adapter that has the IPv4 address, the index of its GID, and the GID.

    A GID is the address of an RDMA port. RoCE v2 makes one of each IP address of the interface.
    """
    wanted = ipaddress.IPv6Address(f"::ffff:{address}")
    for device in get_device_list():
        context = Context(name=device.name.decode())
        for index in range(context.query_port(ADAPTER_PORT).gid_tbl_len):
            gid = context.query_gid(ADAPTER_PORT, index)
            if ipaddress.IPv6Address(str(gid).strip()) != wanted:
                continue
            # The table has each address twice: for RoCE v1 as well.
            if context.query_gid_type(ADAPTER_PORT, index) == IBV_GID_TYPE_SYSFS_ROCE_V2:
                return context, index, f"::ffff:{address}"
    sys.exit(f"no RDMA device has the address {address}: is its interface up?")


def connect(qp: QP, gid_index: int, peer_gid: str, peer_qpn: int) -> None:
    """Make a queue pair ready to receive and to send; both hosts begin with packet number 0."""
    attr = QPAttr(port_num=ADAPTER_PORT)
    attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
    attr.dest_qp_num = peer_qpn
    attr.path_mtu = IBV_MTU_1024  # fits the 1500 bytes of an Ethernet frame
    groups = ipaddress.IPv6Address(peer_gid).packed.hex(":", 2)  # pyverbs takes no shorter form
    route = GlobalRoute(dgid=GID(groups), sgid_index=gid_index, hop_limit=64)
    attr.ah_attr = AHAttr(port_num=ADAPTER_PORT, is_global=1, gr=route)
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.timeout, attr.retry_cnt = 14, 7  # lost packets: 67 ms (4.096 us << 14), then again
    attr.min_rnr_timer, attr.rnr_retry = 12, 7  # no receive posted: 0.64 ms, without end
    qp.to_rts(attr)


def await_completions(cq: CQ, count: int) -> None:
    """Poll until so many requests have completed. Exits if one has failed."""
    deadline = time.monotonic() + SECONDS
    while count:
        _, completions = cq.poll()
        for completion in completions:
            if completion.status != IBV_WC_SUCCESS:
                sys.exit(f"a request failed: {completion}")
            count -= 1
        if time.monotonic() > deadline:
            sys.exit(f"{count} requests have not completed in {SECONDS} s")


def main(address: str | None = None) -> int:
    """Exchange data with the peer; return the exit status. Without an address, wait for it."""
    me, peer = (FIRST, SECOND) if address is None else (SECOND, FIRST)
    tcp = meet(address)
    lines = tcp.makefile("rw")

    def swap(line: str) -> str:
        """Send a line, and return the peer's: neither host goes on before the other is here."""
        lines.write(f"{line}\n")
        lines.flush()
        answer = str(lines.readline()).strip()
        return answer or sys.exit("the peer is gone")

    context, gid_index, gid = find_gid(tcp.getsockname()[0])
    pd = PD(context)  # keys of memory are of use to queue pairs of the same protection domain
    cq = CQ(context, 16)
    cap = QPCap(max_send_wr=2, max_recv_wr=1)
    qp = QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1))

    # An adapter reads and writes registered memory only; the peer gets a key to one part of ours.
    outgoing = MR(pd, WRITE_SIZE, IBV_ACCESS_LOCAL_WRITE)
    received = MR(pd, SEND_SIZE, IBV_ACCESS_LOCAL_WRITE)
    written = MR(pd, WRITE_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
    outgoing.write(pattern(me, WRITE_SIZE), WRITE_SIZE)

    line = swap(f"{gid} {qp.qp_num:x} {written.buf:x} {written.rkey:x}")
    peer_gid, *numbers = line.split()
    peer_qpn, peer_buffer, peer_rkey = (int(number, 16) for number in numbers)
    connect(qp, gid_index, peer_gid, peer_qpn)
    qp.post_recv(RecvWR(num_sge=1, sg=[SGE(received.buf, SEND_SIZE, received.lkey)]))
    swap("ready")  # the peer sends only now that there is memory for it

    write = SendWR(
        opcode=IBV_WR_RDMA_WRITE, num_sge=1, sg=[SGE(outgoing.buf, WRITE_SIZE, outgoing.lkey)]
    )
    write.set_wr_rdma(peer_rkey, peer_buffer)
    qp.post_send(write)
    qp.post_send(
        SendWR(opcode=IBV_WR_SEND, num_sge=1, sg=[SGE(outgoing.buf, SEND_SIZE, outgoing.lkey)])
    )
    # Ours are WRITE, SEND and RECV. A QP carries out its peer's requests in their order, so what
    # was written before the SEND is there when the RECV has completed.
    await_completions(cq, 3)
    swap("done")  # the peer may still wait for an acknowledgement, which needs our queue pair

    sent = pattern(peer, WRITE_SIZE)
    same = received.read(SEND_SIZE, 0) == sent[:SEND_SIZE] and written.read(WRITE_SIZE, 0) == sent
    what = f"{SEND_SIZE} bytes by SEND, {WRITE_SIZE} by RDMA WRITE"
    print(f"{context.name} from {peer_gid}: {what}: {'all as sent' if same else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
