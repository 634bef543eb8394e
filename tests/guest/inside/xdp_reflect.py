"""A native XDP program that sends frames back, and a peer that compares what comes back.

    xdp_reflect.py reflect INTERFACE tx|redirect
    xdp_reflect.py compare INTERFACE ADDRESS MTU

The program swaps the MAC addresses of frames of one EtherType and leaves others to the stack. It
stays until the process ends. The peer sends bursts of short and long frames, and waits for each
burst to come back: in order, byte for byte. Both run in the guest, which has no library for this:
the program is put together here (linux/bpf.h).
"""

import ctypes
import os
import random
import signal
import socket
import struct
import sys
import time

PROG_LOAD, LINK_CREATE = 5, 28
PROG_TYPE_XDP, ATTACH_XDP, DRIVER_MODE = 6, 37, 4
HAS_FRAGS = 1 << 5
PASS, TX = 2, 3
REDIRECT, LOAD_BYTES, STORE_BYTES = 23, 189, 190
HEADER = -16
"""Where the Ethernet header is on the stack."""
ETHERTYPE = 0x88B5
BURSTS, FRAMES = 12, 32
SECONDS = 60

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, *numbers, form):
    attributes = ctypes.create_string_buffer(struct.pack(form, *numbers), 128)
    result = libc.syscall(321, command, attributes, 128)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def instruction(code, target=0, source=0, offset=0, value=0):
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


def on_header(helper):
    """Instructions that load the Ethernet header onto the stack, or store it; r0 is 0 then.

    Of a frame in several buffers the driver may have no byte where a program sees it directly.
    """
    return (
        instruction(0xBF, 1, 6)
        + instruction(0xB7, 2)
        + instruction(0xBF, 3, 10)
        + instruction(0x07, 3, value=HEADER)
        + instruction(0xB7, 4, value=14)
        + instruction(0x85, value=helper)
    )


def reflecting(end):
    """The program: ``end`` are the instructions behind the swap, which return."""
    swap = b"".join(
        instruction(0x69, 4, 10, HEADER + at)
        + instruction(0x69, 5, 10, HEADER + 6 + at)
        + instruction(0x6B, 10, 5, HEADER + at)
        + instruction(0x6B, 10, 4, HEADER + 6 + at)
        for at in (0, 2, 4)
    )
    swap += on_header(STORE_BYTES) + instruction(0x55, 0, 0, len(end) // 8) + end
    others = len(swap) // 8
    return (
        instruction(0xBF, 6, 1)
        + on_header(LOAD_BYTES)
        + instruction(0x55, 0, 0, others + 2)  # shorter than a header
        + instruction(0x69, 5, 10, HEADER + 12)
        + instruction(0x55, 5, 0, others, socket.htons(ETHERTYPE))
        + swap
        + instruction(0xB7, 0, value=PASS)
        + instruction(0x95)
    )


def reflect(name, action):
    interface = socket.if_nametoindex(name)
    if action == "tx":
        end = instruction(0xB7, 0, value=TX)
    else:  # bpf_redirect() to the same interface
        end = (
            instruction(0xB7, 1, value=interface)
            + instruction(0xB7, 2)
            + instruction(0x85, value=REDIRECT)
        )
    code = reflecting(end + instruction(0x95))
    held, text = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    program = bpf(
        PROG_LOAD, PROG_TYPE_XDP, len(code) // 8, ctypes.addressof(held), ctypes.addressof(text),
        HAS_FRAGS, form="<IIQQ16x4xI",
    )  # fmt: skip
    bpf(LINK_CREATE, program, interface, ATTACH_XDP, DRIVER_MODE, form="<IIII")
    sys.stdout.write("reflecting\n")
    sys.stdout.flush()
    signal.pause()


def compare(name, address, mtu):
    os.sched_setaffinity(0, {0})  # so that all frames leave by one queue
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind((name, ETHERTYPE))
    own, other = sock.getsockname()[4], bytes.fromhex(address.replace(":", ""))
    sock.settimeout(1)
    draw = random.Random(mtu)
    for burst in range(BURSTS):
        sizes = [46, mtu, 47, mtu - 1] + [draw.randint(46, mtu) for _ in range(FRAMES - 4)]
        bodies = [bytes((burst, number)) + draw.randbytes(size - 2)
                  for number, size in enumerate(sizes)]  # fmt: skip
        for body in bodies:
            sock.send(other + own + struct.pack(">H", ETHERTYPE) + body)
        back, end = [], time.monotonic() + SECONDS
        while len(back) < len(bodies) and time.monotonic() < end:
            try:
                frame, (_, _, kind, *_) = sock.recvfrom(1 << 16)
            except TimeoutError:
                continue
            if kind != socket.PACKET_OUTGOING:
                back.append(frame[14:])
        if back != bodies:
            raise SystemExit(f"burst {burst}: {len(back)} of {len(bodies)} frames, or others")
    sys.stdout.write(f"{BURSTS * FRAMES} frames are the same\n")


if sys.argv[1] == "reflect":
    reflect(sys.argv[2], sys.argv[3])
else:
    compare(sys.argv[2], sys.argv[3], int(sys.argv[4]))
