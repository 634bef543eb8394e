"""Runs, in the guest, one end of a TCP stream, or of a flow of small UDP datagrams.

    stream.py source ADDRESS PORT SECONDS     connect, and send for SECONDS

    stream.py fetch ADDRESS PORT              connect, and receive until the peer ends
    stream.py sink ADDRESS PORT               wait for a connection, and receive until the peer ends
    stream.py datagrams ADDRESS PORT SECONDS  send datagrams for SECONDS, then empty ones
    stream.py count ADDRESS PORT              receive datagrams until an empty one arrives

A receiver prints, as JSON, the number of received bytes or datagrams, and the seconds between the
first and the last of them.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

BLOCK = bytes(128 << 10)
SMALL = bytes(18)
"""Payload of a frame of 60 bytes, the shortest."""
ENDS = 20
PATIENCE_S = 30


def source(address: str, port: int, seconds: float) -> None:
    with socket.create_connection((address, port), PATIENCE_S) as stream:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(BLOCK)


def fetch(address: str, port: int) -> None:
    with socket.create_connection((address, port), PATIENCE_S) as stream:
        drain(stream)


def sink(address: str, port: int) -> None:
    with socket.create_server((address, port)) as server:
        server.settimeout(PATIENCE_S)
        stream, _ = server.accept()
    with stream:
        drain(stream)


def drain(stream: socket.socket) -> None:
    room = bytearray(1 << 18)
    total = stream.recv_into(room)
    start = time.monotonic()
    found = 0
    while size := stream.recv_into(room):
        found += size
    print(json.dumps([found if total else 0, time.monotonic() - start]))


def datagrams(address: str, port: int, seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, port))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(50):
                sender.send(SMALL)
        with suppress(ConnectionRefusedError):  # the receiver has seen the end
            for _ in range(ENDS):
                time.sleep(0.05)
                sender.send(b"")


def count(address: str, port: int) -> None:
    room = bytearray(64)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(PATIENCE_S)
        receiver.bind((address, port))
        receiver.recv_into(room)
        start = last = time.monotonic()
        found = 0
        while receiver.recv_into(room):
            found += 1
            if not found & 15:
                last = time.monotonic()
        print(json.dumps([found, last - start]))


ROLES: dict[str, Callable[..., None]] = {
    "source": source,
    "fetch": fetch,
    "sink": sink,
    "datagrams": datagrams,
    "count": count,
}
role, address, port, *seconds = sys.argv[1:]
ROLES[role](address, int(port), *map(float, seconds))
