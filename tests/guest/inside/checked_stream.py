"""Runs in a guest: a TCP stream whose bytes are compared by their digest.

``listen ADDRESS`` says "listening", takes one connection and prints what has come; ``send ADDRESS
BYTES`` prints what has left. Both print a number of bytes and a digest.
"""

import hashlib
import os
import socket
import sys

PORT = 5300
PIECE = 100_003


def listen(address):
    """One connection, until its end."""
    with socket.create_server((address, PORT), family=_family(address)) as server:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        connection, _ = server.accept()
    digest, count = hashlib.sha256(), 0
    while data := connection.recv(1 << 20):
        digest.update(data)
        count += len(data)
    sys.stdout.write(f"{count} {digest.hexdigest()}\n")


def send(address, size):
    """Random bytes, in pieces that are no multiple of anything."""
    digest, left = hashlib.sha256(), size
    with socket.create_connection((address, PORT)) as connection:
        while left:
            data = os.urandom(min(left, PIECE))
            digest.update(data)
            connection.sendall(data)
            left -= len(data)
    sys.stdout.write(f"{size} {digest.hexdigest()}\n")


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


if __name__ == "__main__":
    what, where, *size = sys.argv[1:]
    if what == "listen":
        listen(where)
    else:
        send(where, int(size[0]))
