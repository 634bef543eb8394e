"""Runs in the guest: tinygrad's own mlx5 driver connects two adapters and moves checked data.

The kernel's driver is not loaded. Two adapters are brought up, one reliable queue pair each, and
random bytes are sent from one registered buffer to the other. The package tinygrad is beside this
file.
"""

import os
import struct
import sys
import time

from tinygrad.helpers import to_be32, to_be64
from tinygrad.runtime.autogen.mlx5 import MLX5_CMD_OP_ACCESS_REG
from tinygrad.runtime.support.mlx.mlxdev import MLXQP, MLXDev
from tinygrad.runtime.support.system import System

CONNECTX6 = 0x101B
PMTU, PORT, MTU = 0x5003, 1, 4200
"""tinygrad's packets have 4096 bytes, and it leaves it to others to set a port's MTU."""
SIZES = (1, 64, 4096, 65536, 1 << 20)
LOG_RING = 5
MESSAGES = 150
SEND, SOLICITED_COMPLETION = 0x0A, 8
ERRORS = (13, 14)
SECONDS = 60


class End:
    """An adapter with a queue pair and a buffer."""

    def __init__(self, number, make, bus):
        self.dev = MLXDev(make("mlx", bus), ip=f"10.0.0.{number}")
        pmtu = struct.pack(">xBxxHxxHxxHxx", PORT, 0, MTU, 0)
        self.dev.cmd.exec(MLX5_CMD_OP_ACCESS_REG, register_id=PMTU, payload=bytearray(pmtu))
        self.qp = MLXQP(self.dev, log_sq_size=LOG_RING, log_rq_size=LOG_RING)
        self.buffer, self.pages = self.dev.pci_dev.alloc_sysmem(SIZES[-1])
        self.key = self.dev.register_mem(self.pages, SIZES[-1])

    def segment(self, length):
        return struct.pack(">IIQ", length, self.key, self.pages[0])

    def receive(self, head, length):
        at = (head & (1 << LOG_RING) - 1) * 16
        self.qp.qp_buf[at : at + 16] = self.segment(length)
        self.dev.dbr[self.qp.qp_dbr // 4] = to_be32(head + 1)

    def send(self, head, length):
        number = self.qp.qp_info["qpn"] << 8 | 2
        control = struct.pack(">IIII", head << 8 | SEND, number, SOLICITED_COMPLETION, 0)
        at = self.qp.sq_offset + (head & (1 << LOG_RING) - 1) * 64
        self.qp.qp_buf[at : at + 64] = (control + self.segment(length)).ljust(64, b"\0")
        self.dev.dbr[self.qp.qp_dbr // 4 + 1] = to_be32(head + 1)
        self.dev.uar_view[0x800 // 8] = to_be64((head << 8 | SEND) << 32 | number)

    def wait(self, head):
        """Wait for the completion of message ``head``, and give its place back."""
        at = (head % self.qp.cq_size) * 64 + 63
        owner = head // self.qp.cq_size & 1
        end = time.monotonic() + SECONDS
        while self.qp.cq_mem[at] & 1 != owner:
            if time.monotonic() > end:
                sys.exit(f"message {head}: no completion")
        if self.qp.cq_mem[at] >> 4 in ERRORS:
            sys.exit(f"message {head}: {bytes(self.qp.cq_mem[at - 63 : at + 1]).hex()}")
        self.dev.dbr[self.qp.cq_dbr // 4] = to_be32(head + 1 & 0xFFFFFF)


def main():
    found = System.list_devices(vendor=0x15B3, devices=((0xFFFF, (CONNECTX6,)),))
    one, other = (End(number, make, bus) for number, (make, bus) in enumerate(found, 1))
    one.qp.connect(other.qp)
    other.qp.connect(one.qp)
    for head in range(MESSAGES):
        length = SIZES[head % len(SIZES)]
        data = os.urandom(length)
        one.buffer[:length], other.buffer[:length] = data, bytes(length)
        other.receive(head, length)
        one.send(head, length)
        one.wait(head)
        other.wait(head)
        if bytes(other.buffer[:length]) != data:
            sys.exit(f"message {head}: wrong bytes")
    for end in (one, other):
        end.dev.unregister_mem(end.key)
    sys.stdout.write(f"{MESSAGES} messages are right\n")


main()
