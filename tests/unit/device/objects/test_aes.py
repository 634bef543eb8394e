"""AES-XTS from any block of a data unit on, held against OpenSSL's; wrapped keys."""

import random

import pytest

from emu.device.objects.memory.aes import AesXts, _times, unwrap_key, wrap_key

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")

KEY = bytes(range(64))
TWEAK = 0x0123456789ABCDEF_FEDCBA9876543210


def openssl(data, tweak=TWEAK, key=KEY):
    mode = ciphers.modes.XTS(tweak.to_bytes(16, "little"))
    encryptor = ciphers.Cipher(ciphers.algorithms.AES(key), mode).encryptor()
    return encryptor.update(data) + encryptor.finalize()


@pytest.fixture
def xts():
    return AesXts(KEY[:32], KEY[32:])


@pytest.mark.parametrize("size", [16, 17, 31, 32, 33, 512, 520, 4048, 4160])
def test_whole_units(xts, size):
    data = random.Random(size).randbytes(size)
    made = xts.apply(data, TWEAK, 0, encrypts=True)
    assert made == openssl(data)
    assert xts.apply(made, TWEAK, 0, encrypts=False) == data


def test_any_part_of_a_long_unit(xts):
    chance = random.Random(7)
    data = chance.randbytes(1 << 20)
    whole = openssl(data)
    for first in [0, 119, 120, 121, 240, 65535, *(chance.randrange(65536) for _ in range(20))]:
        end = min(first + chance.randrange(1, 40), 65536)
        part = slice(first * 16, end * 16)
        assert xts.apply(data[part], TWEAK, first, encrypts=True) == whole[part]
        assert xts.apply(whole[part], TWEAK, first, encrypts=False) == data[part]


def test_masks_are_found_in_few_steps():
    """As many multiplications by x as ever, without as many steps; one by one for comparison."""
    mask = TWEAK
    for power in range(1, 700):
        mask = mask << 1 & (1 << 128) - 1 ^ (0x87 if mask >> 127 else 0)
        assert _times(TWEAK, power) == mask
    assert _times(TWEAK, 0) == TWEAK
    for power in (1 << 16, 65535, 40000):
        assert _times(_times(TWEAK, power), 12345) == _times(TWEAK, power + 12345)


def test_the_end_of_a_unit_alone(xts):
    """520 bytes: the last block, with the eight bytes that are left, is block 31."""
    data = random.Random(3).randbytes(520)
    assert xts.apply(data[496:], TWEAK, 31, encrypts=True) == openssl(data)[496:]


def test_shorter_keys():
    data = bytes(48)
    made = AesXts(KEY[:16], KEY[16:32]).apply(data, 1, 0, encrypts=True)
    assert made == openssl(data, 1, KEY[:32])


def test_wrapped_keys():
    wrapped = wrap_key(KEY[:16], KEY)
    assert unwrap_key(KEY[:16], wrapped) == KEY
    assert unwrap_key(KEY[16:32], wrapped) is None
    assert unwrap_key(KEY[:16], wrapped[:-8]) is None
    assert unwrap_key(KEY[:16], b"odd") is None
