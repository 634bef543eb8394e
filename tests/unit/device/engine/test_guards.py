"""Guards of block signatures: the check values that their standards and catalogues give."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.engine.mr import checksums as guards

CHECK = b"123456789"
ONES32, ONES64 = (1 << 32) - 1, (1 << 64) - 1


@pytest.mark.parametrize(
    ("guard", "seed", "value"),
    [
        (guards.t10_crc, 0, 0xD0DB),
        (guards.crc32, ONES32, 0xCBF43926),
        (guards.crc32c, ONES32, 0xE3069283),
        (guards.crc64_xp10, ONES64, 0xAE8B14860A799888),
    ],
)
def test_check_values(guard, seed, value):
    assert guard(CHECK, seed) == value


def test_iscsi_example():
    """RFC 3720 B.4: 32 bytes of zeros, of ones, and counting up."""
    assert guards.crc32c(bytes(32), ONES32) == 0x8A9136AA
    assert guards.crc32c(b"\xff" * 32, ONES32) == 0x62A8AB43
    assert guards.crc32c(bytes(range(32)), ONES32) == 0x46DD794E


def test_ip_header_example():
    header = bytes.fromhex("45000073000040004011") + bytes(2) + bytes.fromhex("c0a80001c0a800c7")
    assert guards.ip_checksum(header, 0) == 0xB861
    assert guards.ip_checksum(b"\xff" * 4, 0xFFFF) == 0


def slow(data, width, polynomial, crc):
    """A reflected CRC, bit by bit."""
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ (1 << width) - 1


@given(st.binary(max_size=70), st.sampled_from([0, ONES64]))
def test_tables_give_what_the_definition_gives(data, seed):
    assert guards.crc64_xp10(data, seed) == slow(data, 64, 0x9A6C9329AC4BC9B5, seed)
    assert guards.crc32c(data, seed & ONES32) == slow(data, 32, 0x82F63B78, seed & ONES32)
    assert guards.crc32(data, seed & ONES32) == slow(data, 32, 0xEDB88320, seed & ONES32)


def test_seed_of_ones_is_the_usual_crc32():
    assert guards.crc32(CHECK, ONES32) == zlib.crc32(CHECK)
