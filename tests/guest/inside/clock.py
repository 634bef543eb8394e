"""The adapter's clock, /dev/ptp0, set and made faster: what it does is printed as JSON."""

import ctypes
import fcntl
import json
import os
import struct
import sys
import time

ADJ_FREQUENCY, ADJ_SETOFFSET, ADJ_NANO = 0x2, 0x100, 0x2000
PTP_SYS_OFFSET_EXTENDED, SAMPLES = 0xC4C03D09, 3
PPB = 30_000_000

libc = ctypes.CDLL(None, use_errno=True)


class Timex(ctypes.Structure):
    """linux/timex.h."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("errors", ctypes.c_long * 2),
        ("status", ctypes.c_int),
        ("more", ctypes.c_long * 3),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
        ("rest", ctypes.c_long * 30),
    )


def adjust(clock, **fields):
    if libc.clock_adjtime(clock, ctypes.byref(Timex(**fields))) < 0:
        raise OSError(ctypes.get_errno(), "clock_adjtime")


def now(clock):
    """The clock's time and the system's, of the read that was interrupted the least."""
    found = []
    for _ in range(10):
        before = time.monotonic()
        value = time.clock_gettime(clock)
        after = time.monotonic()
        found.append((after - before, value, (before + after) / 2))
    return min(found)[1:]


def rate(clock):
    """Seconds of the clock in a second of the system's."""
    first, begun = now(clock)
    time.sleep(2)
    last, ended = now(clock)
    return (last - first) / (ended - begun)


def main():
    file = os.open("/dev/ptp0", os.O_RDWR)
    clock = ~file << 3 | 3
    found = {"apart": time.clock_gettime(clock) - time.time()}
    time.clock_settime(clock, 1000)
    found["set"] = time.clock_gettime(clock)
    adjust(clock, modes=ADJ_SETOFFSET | ADJ_NANO, seconds=500)
    found["moved"] = time.clock_gettime(clock)
    found["rate"] = rate(clock)
    adjust(clock, modes=ADJ_FREQUENCY, freq=PPB * 65536 // 1000)
    found["faster"] = rate(clock)
    adjust(clock, modes=ADJ_FREQUENCY, freq=0)
    told = bytearray(struct.pack("I", SAMPLES).ljust(0x4C0, b"\0"))
    fcntl.ioctl(file, PTP_SYS_OFFSET_EXTENDED, told)
    found["samples"] = [
        struct.unpack_from("<qI4xqI4xqI4x", told, 16 + 48 * number)[::2]
        for number in range(SAMPLES)
    ]
    json.dump(found, sys.stdout)


main()
