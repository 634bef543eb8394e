"""Stores in the send doorbells of a UAR page: what a store of any size says."""

import pytest

from emu.device.function.doorbells import announced, is_doorbell, send_number

DOORBELL = bytes.fromhex("0012340a 00056702")
"""Of request 0x1234, with two segments, of queue 0x567."""


@pytest.mark.parametrize(
    ("offset", "size", "number"),
    [
        (0x800, 8, 0x567), (0x900, 8, 0x567), (0x804, 4, 0x567), (0x804, 3, 0x567),
        (0x800, 7, 0x567), (0x800, 6, None), (0x800, 4, None), (0x804, 2, None), (0x805, 3, None),
        (0x808, 8, None),
    ],
)  # fmt: skip
def test_number(offset, size, number):
    data = DOORBELL[offset & 0xFF :][:size].ljust(size, b"\0")
    assert send_number(offset, data) == number
    assert is_doorbell(offset, data) == (number is not None)


@pytest.mark.parametrize(
    ("offset", "data", "index"),
    [
        (0x800, DOORBELL, 0x1235), (0x900, DOORBELL, 0x1235), (0x800, DOORBELL + bytes(8), 0x1235),
        (0x800, DOORBELL[:4], None), (0x804, DOORBELL, None), (0x800, DOORBELL[:7] + b"\0", None),
        (0x800, b"\0\xff\xff\x0a\0\0\0\5", 1),
    ],
)  # fmt: skip
def test_index(offset, data, index):
    assert announced(offset, data) == index
