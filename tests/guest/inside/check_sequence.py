"""Sends a frame, or receives it with its check sequence: check_sequence.py send|receive NAME."""

import socket
import sys
import zlib

ETHERTYPE = 0x88B5
FRAME = b"\xff" * 6 + b"\2" * 6 + ETHERTYPE.to_bytes(2, "big") + bytes(range(100))

way, name = sys.argv[1:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
    if way == "send":
        link.bind((name, 0))
        link.send(FRAME)
    else:
        link.bind((name, ETHERTYPE))
        got = link.recv(2000)
        fits = got[:-4] == FRAME and got[-4:] == zlib.crc32(FRAME).to_bytes(4, "little")
        sys.stdout.write(f"{len(got)} {'fits' if fits else 'wrong'}\n")
