"""An AF_XDP socket that answers pings: its arguments are an interface, zero or copy, and a number.

With zero+stamps or copy+stamps it gets only packets that have a time stamp.
Two more are the bytes of its frames, and "anywhere" if these need not begin at multiples of them,
for which it takes huge pages. It runs in the guest, which has no library for it:
the rings are those of linux/if_xdp.h, the program is put together here (linux/bpf.h). It ends when
it has answered so many pings.
"""

import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import sys
from pathlib import Path

AF_XDP, SOL_XDP, MAP_HUGETLB = 44, 283, 0x40000
RX_RING, TX_RING, UMEM_REG, FILL_RING, COMPLETION_RING, OPTIONS = 2, 3, 4, 5, 6, 8
MMAP_OFFSETS = 1
XDP_COPY, XDP_ZEROCOPY, NEED_WAKEUP = 2, 4, 8
PAGE_OFFSETS = (0, 0x80000000, 0x100000000, 0x180000000)
MAP_CREATE, MAP_UPDATE_ELEM, PROG_LOAD, LINK_CREATE = 0, 2, 5, 28
PROG_TYPE_XDP, MAP_TYPE_XSKMAP, ATTACH_XDP, DRIVER_MODE = 6, 17, 37, 4
ENTRIES = 256
KERNEL_FUNCTION, OF_DEVICE = 2, 1 << 6
SET_TIME_STAMPS, FILTER_ALL = 0x89B0, 1
BTF_FUNC = 12
BTF_FIXED = {1: 4, 3: 12, 14: 4, 17: 4}
BTF_EACH = {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}
"""How much follows a type of each kind: always, and for each member."""
UNALIGNED_CHUNKS = 1
OFFSET_SHIFT = 48
"""Where the packet begins in a frame that may begin anywhere, above the frame's own address."""
ETH_IPV4, ICMP, ECHO_REQUEST, ECHO_REPLY = b"\x08\0", 1, 8, 0

libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def bpf(command, *numbers, form):
    attributes = ctypes.create_string_buffer(struct.pack(form, *numbers), 128)
    return checked(libc.syscall(321, command, attributes, 128))


def instruction(code, target=0, source=0, offset=0, value=0):
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


def kernel_function(wanted):
    """The number of a function in the kernel's description of its own types (linux/btf.h)."""
    raw = Path("/sys/kernel/btf/vmlinux").read_bytes()
    header, types, types_length, strings = struct.unpack_from("<4xIIII", raw)
    at, end, number = header + types, header + types + types_length, 0
    while at < end:
        number += 1
        name, info = struct.unpack_from("<II", raw, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == BTF_FUNC and raw.startswith(wanted + b"\0", header + strings + name):
            return number
        at += 12 + BTF_FIXED.get(kind, 0) + BTF_EACH.get(kind, 0) * members
    raise LookupError(wanted)


def has_a_stamp(function):
    """Instructions that go on, with the packet in r1, if it has a time stamp."""
    return (
        instruction(0xBF, 6, 1)
        + instruction(0xBF, 2, 10)
        + instruction(0x07, 2, 0, 0, -8)  # r2 = where the stamp goes
        + instruction(0x7A, 10, 0, -8, 0)
        + instruction(0x85, 0, KERNEL_FUNCTION, 0, function)
        + instruction(0x55, 0, 0, 9, 0)  # to the end if it has none
        + instruction(0x79, 1, 10, -8)
        + instruction(0x15, 1, 0, 7, 0)  # or that is 0
        + instruction(0xBF, 1, 6)
    )


def redirect(sockets, interface):
    """A program: bpf_redirect_map() to the socket of the packet's queue, or to the stack.

    With an interface it belongs to that one's driver, which it asks for time stamps.
    """
    asks = has_a_stamp(kernel_function(b"bpf_xdp_metadata_rx_timestamp")) if interface else b""
    code = (
        asks
        + instruction(0x61, 2, 1, 16)  # r2 = rx_queue_index
        + instruction(0x18, 1, 1, 0, sockets)
        + instruction(0)  # r1 = the map
        + instruction(0xB7, 3, 0, 0, 2)  # r3 = XDP_PASS
        + instruction(0x85, 0, 0, 0, 51)
        + instruction(0x95)
        + instruction(0xB7, 0, 0, 0, 2)  # XDP_PASS
        + instruction(0x95)
    )
    code = code if asks else code[:-16]
    held, text = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"GPL")
    return bpf(
        PROG_LOAD, PROG_TYPE_XDP, len(code) // 8, ctypes.addressof(held), ctypes.addressof(text),
        OF_DEVICE if interface else 0, interface, form="<IIQQ16x4xI16xI",
    )  # fmt: skip


def take_time_stamps(sock, name):
    """SIOCSHWTSTAMP: the device stamps all packets that it receives."""
    wanted = struct.pack("<III", 0, 0, FILTER_ALL)
    held = ctypes.create_string_buffer(wanted, len(wanted))
    request = struct.pack("<16sQ16x", name.encode(), ctypes.addressof(held))
    fcntl.ioctl(sock, SET_TIME_STAMPS, request)


class Ring:
    """Entries between us and the kernel, with an index of each side."""

    def __init__(self, sock, offsets, page_offset, form):
        self._producer, self._consumer, self._entries, _ = offsets
        self._form = struct.Struct(form)
        length = self._entries + ENTRIES * self._form.size
        self._memory = mmap.mmap(sock.fileno(), length, offset=page_offset)

    def _at(self, place):
        return struct.unpack_from("<I", self._memory, place)[0]

    def put(self, *entry):
        index = self._at(self._producer)
        place = self._entries + index % ENTRIES * self._form.size
        self._form.pack_into(self._memory, place, *entry)
        struct.pack_into("<I", self._memory, self._producer, index + 1 & 0xFFFFFFFF)

    def take(self):
        """The next entry, if there is one."""
        index = self._at(self._consumer)
        if index == self._at(self._producer):
            return None
        place = self._entries + index % ENTRIES * self._form.size
        entry = self._form.unpack_from(self._memory, place)
        struct.pack_into("<I", self._memory, self._consumer, index + 1 & 0xFFFFFFFF)
        return entry


def answer(frame):
    """The frame that answers a ping; None for another one."""
    if frame[12:14] != ETH_IPV4 or frame[23] != ICMP or frame[34] != ECHO_REQUEST:
        return None
    frame[0:12] = frame[6:12] + frame[0:6]
    frame[26:34] = frame[30:34] + frame[26:30]
    frame[34] = ECHO_REPLY
    total = int.from_bytes(frame[36:38], "big") + (ECHO_REQUEST << 8)
    frame[36:38] = ((total & 0xFFFF) + (total >> 16)).to_bytes(2, "big")
    return frame


def main():
    name, wanted = sys.argv[1], int(sys.argv[3])
    mode, _, stamps = sys.argv[2].partition("+")
    interface = socket.if_nametoindex(name)
    frame_bytes = int(sys.argv[4]) if len(sys.argv) > 4 else 4096
    is_anywhere = sys.argv[5:] == ["anywhere"]
    sockets = bpf(MAP_CREATE, MAP_TYPE_XSKMAP, 4, 4, 1, form="<IIII")
    program = redirect(sockets, interface if stamps else 0)
    sock = socket.socket(AF_XDP, socket.SOCK_RAW)
    kind = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | (MAP_HUGETLB if is_anywhere else 0)
    memory = mmap.mmap(-1, 2 << 20, flags=kind)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    sock.setsockopt(
        SOL_XDP,
        UMEM_REG,
        struct.pack(
            "<QQIIII", start, len(memory), frame_bytes, 0, UNALIGNED_CHUNKS * is_anywhere, 0
        ),
    )
    for ring in (FILL_RING, COMPLETION_RING, RX_RING, TX_RING):
        sock.setsockopt(SOL_XDP, ring, struct.pack("<I", ENTRIES))
    offsets = struct.unpack("<16Q", sock.getsockopt(SOL_XDP, MMAP_OFFSETS, 128))
    rings = zip((offsets[at : at + 4] for at in (0, 4, 8, 12)), PAGE_OFFSETS, strict=True)
    forms = ("<QII", "<QII", "<Q", "<Q")
    received, sent, fill, completed = (Ring(sock, *each, form) for each, form in zip(rings, forms))
    for number in range(ENTRIES):
        fill.put(number * frame_bytes)
    flags = NEED_WAKEUP | (XDP_ZEROCOPY if mode == "zero" else XDP_COPY)
    address = struct.pack("<HHIII", AF_XDP, flags, interface, 0, 0)
    checked(libc.bind(sock.fileno(), address, len(address)))
    key, value = ctypes.c_uint32(0), ctypes.c_uint32(sock.fileno())
    bpf(MAP_UPDATE_ELEM, sockets, ctypes.addressof(key), ctypes.addressof(value), 0, form="<I4xQQQ")
    bpf(LINK_CREATE, program, interface, ATTACH_XDP, DRIVER_MODE, form="<IIII")
    is_zero_copy = struct.unpack("<I", sock.getsockopt(SOL_XDP, OPTIONS, 4))[0]
    if stamps:
        take_time_stamps(socket.socket(), name)
    sys.stdout.write("zero copy\n" if is_zero_copy else "copy\n")
    sys.stdout.flush()
    done = 0
    while done < wanted:
        select.select([sock], [], [])
        while entry := received.take():
            at, length, _ = entry
            frame = at & (1 << OFFSET_SHIFT) - 1 if is_anywhere else at - at % frame_bytes
            at = frame + (at >> OFFSET_SHIFT) if is_anywhere else at
            reply = answer(bytearray(memory[at : at + length]))
            if reply is not None:
                place = (ENTRIES + done % ENTRIES) * frame_bytes
                memory[place : place + length] = bytes(reply)
                sent.put(place, length, 0)
                checked(libc.sendto(sock.fileno(), None, 0, socket.MSG_DONTWAIT, None, 0))
                done += 1
            fill.put(frame)
    back = 0
    while back < done:
        select.select([], [], [], 0.05)
        while completed.take():
            back += 1
    sys.stdout.write(f"{done} answered\n")


main()
