"""Pulses from a pin of the adapter's clock to the other: pulses.py NAME PERIOD_NS COUNT.

Prints when each has come, in nanoseconds of the clock.
"""

import fcntl
import glob
import os
import struct
import sys
import time

PIN_SETFUNC, EXTTS_REQUEST, PEROUT_REQUEST = 0x40603D07, 0x40103D02, 0x40383D03
NONE, EXTTS, PEROUT = range(3)
ENABLE, RISING = 1, 2
SECOND = 1_000_000_000
TAKES, GIVES = 0, 1


def main(name, period, count):
    (path,) = glob.glob(f"/sys/class/net/{name}/device/ptp/ptp*")
    file = os.open(f"/dev/{os.path.basename(path)}", os.O_RDWR)
    clock = ~file << 3 | 3

    def pin(number, function):
        fcntl.ioctl(file, PIN_SETFUNC, struct.pack("64sIII20x", b"", number, function, 0))

    def pulses(start, period):
        times = struct.pack("qI4xqI4x", start, 0, period // SECOND, period % SECOND)
        fcntl.ioctl(file, PEROUT_REQUEST, times + struct.pack("II16x", 0, 0))

    pin(TAKES, EXTTS)
    pin(GIVES, PEROUT)
    fcntl.ioctl(file, EXTTS_REQUEST, struct.pack("II8x", 0, ENABLE | RISING))
    pulses(int(time.clock_gettime(clock)) + 2, period)
    for _ in range(count):
        seconds, rest = struct.unpack_from("qI", os.read(file, 32))
        sys.stdout.write(f"{seconds * SECOND + rest}\n")
    pulses(0, 0)
    fcntl.ioctl(file, EXTTS_REQUEST, struct.pack("II8x", 0, 0))
    pin(TAKES, NONE)
    pin(GIVES, NONE)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
