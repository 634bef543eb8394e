"""Subscribes to notices at the subnet's administrator: subscriber.py DEVICE LID REQUEST

REQUEST is the SubnAdmSet of InformInfo, in hexadecimal. Prints "subscribed", and then each
SubnAdmReport in hexadecimal, which it answers.
"""

import ctypes
import sys

MAD_BYTES = 256
SUBN_ADM, VERSION, REPORT, RESPONSE = 3, 2, 6, 0x80
GSI_QKEY = 0x80010000
MASK = ctypes.c_long * 2

umad = ctypes.CDLL("libibumad.so.3")
umad.umad_get_mad.restype = ctypes.c_void_p
umad.umad_get_mad.argtypes = [ctypes.c_void_p]


def main(device, lid, request):
    umad.umad_init()
    fd = umad.umad_open_port(device.encode(), 1)
    agent = umad.umad_register(fd, SUBN_ADM, VERSION, 0, MASK(1 << REPORT, 0))
    assert min(fd, agent) >= 0, (fd, agent)
    room = ctypes.create_string_buffer(umad.umad_size() + MAD_BYTES)
    message = ctypes.addressof(room)
    where = umad.umad_get_mad(message)
    ctypes.memmove(where, bytes.fromhex(request), MAD_BYTES)
    send(fd, agent, message, int(lid), timeout=5000)
    while True:
        length = ctypes.c_int(MAD_BYTES)
        found = umad.umad_recv(fd, ctypes.c_void_p(message), ctypes.byref(length), -1)
        assert found == agent, found
        assert umad.umad_status(ctypes.c_void_p(message)) == 0, "no answer"
        data = ctypes.string_at(where, MAD_BYTES)
        if data[3] == REPORT:
            say(data.hex())
            ctypes.memmove(where, data[:3] + bytes([REPORT | RESPONSE]) + data[4:], MAD_BYTES)
            send(fd, agent, message, int(lid), timeout=0)
        else:
            say(f"subscribed {data.hex()}")


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def send(fd, agent, message, lid, timeout):
    umad.umad_set_addr(ctypes.c_void_p(message), lid, 1, 0, GSI_QKEY)
    code = umad.umad_send(fd, agent, ctypes.c_void_p(message), MAD_BYTES, timeout, 1)
    assert code == 0, code


main(*sys.argv[1:])
