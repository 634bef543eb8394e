#!/usr/bin/env python3
"""SMC-R between two guests: a TCP connection whose data go by RDMA. Linux 6.11 or later.

After `modprobe smc`, with an address on each guest's interface:
    smc.py 10.0.0.1              takes a connection, sends back what comes
    smc.py 10.0.0.2 10.0.0.1     connects from the first to the second address, compares what comes
                                 back, and says which devices the kernel's links have
What smcd and smcr do, this does by netlink, as Debian has no smc-tools. Both versions of SMC-R come
about: the first has its addresses from GIDs of RoCE v1, the second from those of RoCE v2.
"""

from __future__ import annotations

import errno
import random
import socket
import struct
import sys
from collections.abc import Iterator

IPPROTO_SMC, PORT = 256, 5000
WRONG_DATA = 65
"""Exit status if other data come back."""
SIZES = (1, 1000, 70_000, 1_000_000)
UEID = b"MLX5EMU"
"""The name of those who may use SMC-R version 2 with each other: the same on both sides."""

NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLMSG_ERROR, NLMSG_DONE = 1, 4, 0x300, 2, 3
SMC_NETLINK_GET_LINK_SMCR, SMC_NETLINK_ADD_UEID = 3, 10
SMC_GEN_LINK_SMCR, SMC_NLA_LINK_IB_DEV, SMC_NLA_EID_TABLE_ENTRY = 3, 2, 1


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while data:
        size, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:size]
        data = data[-(-size // 4) * 4 :]
    return found


def ask(family: int, command: int, data: bytes = b"", flags: int = NLM_F_ACK) -> Iterator[bytes]:
    """Attributes of each message of the answer; an error number becomes an OSError."""
    body = struct.pack("=BBH", command, 1, 0) + data
    header = struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST | flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as link:
        link.send(header + body)
        while True:
            told = link.recv(1 << 16)
            while told:
                size, kind = struct.unpack_from("=IH", told)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    error = -struct.unpack_from("=i", told, 16)[0]
                    if error:
                        raise OSError(error, f"netlink command {command}")
                    return
                yield told[20:size]
                told = told[-(-size // 4) * 4 :]


def smc_family() -> int:
    name = attribute(CTRL_ATTR_FAMILY_NAME, b"SMC_GEN_NETLINK\0")
    [answer] = ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name)
    return int.from_bytes(attributes(answer)[CTRL_ATTR_FAMILY_ID], sys.byteorder)


def add_ueid() -> None:
    entry = attribute(SMC_NLA_EID_TABLE_ENTRY, UEID.ljust(32) + b"\0")
    try:
        list(ask(smc_family(), SMC_NETLINK_ADD_UEID, entry))
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise


def devices_of_links() -> set[str]:
    """Empty where the connection goes by TCP, because SMC-R did not come about."""
    answers = ask(smc_family(), SMC_NETLINK_GET_LINK_SMCR, flags=NLM_F_DUMP)
    found = [attributes(one).get(SMC_GEN_LINK_SMCR) for one in answers]  # or a group of links
    links = [attributes(link) for link in found if link is not None]
    return {link[SMC_NLA_LINK_IB_DEV].rstrip(b"\0").decode() for link in links}


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            sys.exit("smc: the connection has ended")
        data += more
    return data


def serve(here: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC) as listener:
        listener.bind((here, PORT))
        listener.listen()
        connection, _ = listener.accept()
    for size in SIZES:
        connection.sendall(receive(connection, size))
    connection.recv(1)


def call(here: str, there: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC) as connection:
        connection.bind((here, 0))
        connection.connect((there, PORT))
        for size in SIZES:
            data = random.Random(size).randbytes(size)
            connection.sendall(data)
            if receive(connection, size) != data:
                sys.stderr.write(f"smc: {size} bytes came back changed\n")
                sys.exit(WRONG_DATA)
        devices = " ".join(sorted(devices_of_links()))
    if not devices:
        sys.exit("smc: the data came back, but by TCP")
    sys.stdout.write(f"smc: {sum(SIZES)} bytes came back as they were, through {devices}\n")


if __name__ == "__main__":
    add_ueid()
    serve(*sys.argv[1:]) if len(sys.argv) == 2 else call(*sys.argv[1:])
