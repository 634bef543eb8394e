"""Counters of a flow, made by libibverbs: what they say before and after packets, as JSON.

The calls are members of struct verbs_context, which lies in front of struct ibv_context.
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys

CREATE_FLOW, DESTROY_FLOW, DESTROY, CREATE, ATTACH, READ = -80, -96, -272, -280, -288, -296
RAW_PACKET, INIT, RTR, STATE, PORT = 8, 1, 2, 1, 1 << 5
SPEC_ETH, SPEC_COUNT = 0x20, 0x1003
PACKETS, BYTES = 0, 1
COUNT, FRAME_BYTES, ETHERTYPE = 5, 100, 0x88B5
SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind(("eth1", 0))
    for _ in range(int(sys.argv[2])):
        out.send(bytes.fromhex(sys.argv[1]))
"""

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
Pointer, Word = ctypes.c_void_p, ctypes.c_uint32


def checked(value, name, wants_pointer):
    if bool(value) != wants_pointer:
        error = ctypes.get_errno() or value
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return Pointer(value) if wants_pointer else value


def made(name, *words):
    call = getattr(verbs, name)
    call.restype = Pointer
    return checked(call(*words), name, True)


def member(context, offset, result, *words):
    """Call a function of struct verbs_context."""
    address = ctypes.cast(context.value + offset, ctypes.POINTER(Pointer))[0]
    call = ctypes.CFUNCTYPE(result, *map(type, words), use_errno=True)(address)
    return checked(call(*words), str(offset), result is Pointer)


def buffer(data):
    return ctypes.cast(ctypes.create_string_buffer(data, len(data)), Pointer)


def ready(context):
    """A queue pair that takes packets."""
    pd = made("ibv_alloc_pd", context)
    cq = made("ibv_create_cq", context, 16, None, None, 0)
    words = struct.pack("<4Q7I4x", 0, cq.value, cq.value, 0, 1, 16, 1, 1, 0, RAW_PACKET, 0)
    qp = made("ibv_create_qp", pd, buffer(words))
    for state, mask in ((INIT, STATE | PORT), (RTR, STATE)):
        attributes = bytearray(256)
        attributes[0], attributes[129] = state, 1
        checked(verbs.ibv_modify_qp(qp, buffer(bytes(attributes)), mask), "modify", False)
    return pd, cq, qp


def main():
    devices = made("ibv_get_device_list", None)
    context = made("ibv_open_device", Pointer(ctypes.cast(devices, ctypes.POINTER(Pointer))[0]))
    pd, cq, qp = ready(context)
    counters = member(context, CREATE, Pointer, context, buffer(bytes(4)))
    for index, kind in enumerate((BYTES, PACKETS)):
        wanted = buffer(struct.pack("<3I", kind, index, 0))
        member(context, ATTACH, ctypes.c_int, counters, wanted, Pointer(None))
    with open("/sys/class/net/eth0/address") as file:
        mac = bytes.fromhex(file.read().strip().replace(":", ""))
    value = mac + bytes(6) + struct.pack(">HH", ETHERTYPE, 0)
    mask = b"\xff" * 6 + bytes(6) + b"\xff\xff" + bytes(2)
    specs = struct.pack("<IH16s16s2x", SPEC_ETH, 40, value, mask)
    specs += struct.pack("<IH2xQ", SPEC_COUNT, 16, counters.value)
    flow_attributes = struct.pack("<IIHHBB2xI", 0, 0, 20 + len(specs), 0, 2, 1, 0) + specs
    flow = member(context, CREATE_FLOW, Pointer, qp, buffer(flow_attributes))

    def read():
        values = (ctypes.c_uint64 * 2)()
        out = ctypes.cast(values, Pointer)
        member(context, READ, ctypes.c_int, counters, out, Word(2), Word(0))
        return list(values)

    def send(ethertype):
        frame = mac + b"\x02" + bytes(5) + struct.pack(">H", ethertype)
        words = ["ip", "netns", "exec", "peer", "python3", "-c", SEND]
        words += [frame.ljust(FRAME_BYTES, b"\0").hex(), str(COUNT)]
        subprocess.run(words, check=True)

    found = [read()]
    send(ETHERTYPE)
    found.append(read())
    send(socket.ntohs(ETHERTYPE))
    found.append(read())
    member(context, DESTROY_FLOW, ctypes.c_int, flow)
    member(context, DESTROY, ctypes.c_int, counters)
    for name, one in (("destroy_qp", qp), ("destroy_cq", cq), ("dealloc_pd", pd)):
        checked(getattr(verbs, f"ibv_{name}")(one), name, False)
    json.dump(found, sys.stdout)


main()
