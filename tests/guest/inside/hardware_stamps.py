"""Datagrams with the adapter's time stamps: hardware_stamps.py send|receive NAME ADDRESS PORT.

Prints how far each stamp is from the time of NAME's clock when it was read, in seconds.
"""

import ctypes
import fcntl
import glob
import os
import socket
import struct
import sys
import time

SIOCSHWTSTAMP = 0x89B0
TX_ON, FILTER_ALL = 1, 1
TX_HARDWARE, RX_HARDWARE, RAW_HARDWARE = 1, 4, 64
SO_TIMESTAMPING, MSG_ERRQUEUE = 37, 0x2000
COUNT = 10


def stamp(link, flags=0):
    """The hardware's time stamp of the next datagram, in seconds."""
    _, ancillary, _, _ = link.recvmsg(2048, 512, flags)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            seconds, rest = struct.unpack_from("qq", data, 32)
            return seconds + rest / 1e9
    raise SystemExit("no time stamp")


def main(way, name, address, port):
    (path,) = glob.glob(f"/sys/class/net/{name}/device/ptp/ptp*")
    clock = ~os.open(f"/dev/{os.path.basename(path)}", os.O_RDWR) << 3 | 3
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    config = ctypes.create_string_buffer(struct.pack("iii", 0, TX_ON, FILTER_ALL))
    request = struct.pack("16sP16x", name.encode(), ctypes.addressof(config))
    fcntl.ioctl(link, SIOCSHWTSTAMP, request)
    link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_HARDWARE | RX_HARDWARE | RAW_HARDWARE)
    link.settimeout(60)
    if way == "receive":
        link.bind((address, port))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _ in range(COUNT):
            found = stamp(link)
            sys.stdout.write(f"{time.clock_gettime(clock) - found:.6f}\n")
    else:
        for number in range(COUNT):
            before = time.clock_gettime(clock)
            link.sendto(bytes(100 + number), (address, port))
            deadline = time.monotonic() + 60
            while True:
                try:
                    found = stamp(link, MSG_ERRQUEUE)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
            sys.stdout.write(f"{found - before:.6f}\n")


main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
