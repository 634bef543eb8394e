"""An echo between two threads by sockets, which LD_PRELOAD makes those of RDMA (rsockets).

A thread has each end, because librspreload does not follow fork(2). Status 65: other data arrive.
"""

from __future__ import annotations

import random
import socket
import sys
import threading

PORT = 7471
SIZES = (1, 1000, 70_000, 500_000)


def receive(peer: socket.socket, size: int) -> bytes:
    """Return that many bytes; fewer if the peer has closed."""
    data = bytearray()
    while len(data) < size and (more := peer.recv(size - len(data))):
        data += more
    return bytes(data)


def echo(listener: socket.socket) -> None:
    """Send back what one connection sends."""
    peer, _ = listener.accept()
    with peer:
        for size in SIZES:
            peer.sendall(receive(peer, size))


def main() -> int:
    """Return the exit status."""
    address = (sys.argv[1], PORT)
    listener = socket.socket()
    listener.bind(address)
    listener.listen()
    server = threading.Thread(target=echo, args=(listener,), daemon=True)
    server.start()
    with socket.socket() as client:
        client.connect(address)
        for size in SIZES:
            data = random.Random(size).randbytes(size)
            client.sendall(data)
            got = receive(client, size)
            if len(got) < size:
                print("the connection ended", file=sys.stderr)
                return 1
            if got != data:
                return 65
    server.join()
    print(f"rsockets: {len(SIZES)} sizes")
    return 0


sys.exit(main())
