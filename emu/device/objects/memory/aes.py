"""AES in XTS mode (IEEE Std 1619-2007) from any block of a data unit on, and AES key wrap.

A data unit has a tweak, a number of 128 bits. Blocks of 16 bytes are encrypted independently of
each other. The exception is ciphertext stealing: the last two blocks of a unit whose length is not
a multiple of 16. Blocks and tweaks are little-endian numbers, as in the standard.

OpenSSL provides AES, through the package cryptography, which is an extra.
"""

from __future__ import annotations

from typing import Final

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap
except ImportError:
    HAS_AES = False
else:
    HAS_AES = True

BLOCK: Final = 16
_BITS: Final = 128
_MASK: Final = (1 << _BITS) - 1
_REDUCED: Final = 0x87
"""x**128 in the field of 2**128 elements."""


class AesXts:
    """The two keys of AES-XTS: the first one for data, the second one for tweaks."""

    __slots__ = ("_decryptor", "_encryptor", "_tweaks")

    def __init__(self, key1: bytes, key2: bytes) -> None:
        """Set up the ciphers; each key has 16 or 32 bytes."""
        blocks = Cipher(algorithms.AES(key1), modes.ECB())
        self._encryptor, self._decryptor = blocks.encryptor(), blocks.decryptor()
        self._tweaks = Cipher(algorithms.AES(key2), modes.ECB()).encryptor()

    def apply(self, data: bytes, tweak: int, first: int, *, encrypts: bool) -> bytes:
        """Return ``data`` encrypted or decrypted; the data begins at block ``first`` of its unit.

        ``tweak`` is the unit's number. ``data`` has at least one block of 16 bytes. Data whose
        length is not a multiple of 16 must end with the unit (ciphertext stealing).
        """
        mask = _times(self._mask(tweak), first)
        whole = len(data) // BLOCK
        rest = len(data) % BLOCK
        if not rest:
            return self._blocks(data, mask, encrypts)[0]
        stolen_at = (whole - 1) * BLOCK
        done, mask = self._blocks(data[:stolen_at], mask, encrypts)
        return done + self._steal(data[stolen_at:], mask, encrypts)

    def _mask(self, tweak: int) -> int:
        return int.from_bytes(self._tweaks.update(tweak.to_bytes(BLOCK, "little")), "little")

    def _blocks(self, data: bytes, mask: int, encrypts: bool) -> tuple[bytes, int]:
        """Encrypt or decrypt whole blocks; return the result and the mask of the next block.

        Bytes after the last whole block are ignored.
        """
        masks = bytearray()
        for _ in range(len(data) // BLOCK):
            masks += mask.to_bytes(BLOCK, "little")
            mask = mask << 1 & _MASK ^ (_REDUCED if mask >> _BITS - 1 else 0)
        cipher = self._encryptor if encrypts else self._decryptor
        return _xor(cipher.update(_xor(data, masks)), masks), mask

    def _steal(self, data: bytes, mask: int, encrypts: bool) -> bytes:
        """Return a whole block and the shorter one behind it, encrypted or decrypted.

        Ciphertext stealing of IEEE 1619, 5.3.2 and 5.4.2.
        """
        whole, last = data[:BLOCK], data[BLOCK:]
        masks = (mask, _times(mask, 1)) if encrypts else (_times(mask, 1), mask)
        made = self._blocks(whole, masks[0], encrypts)[0]
        return self._blocks(last + made[len(last) :], masks[1], encrypts)[0] + made[: len(last)]


def wrap_key(kek: bytes, key: bytes) -> bytes:
    """Return the wrapped key (RFC 3394), eight bytes longer than ``key``."""
    wrapped: bytes = aes_key_wrap(kek, key)
    return wrapped


def unwrap_key(kek: bytes, wrapped: bytes) -> bytes | None:
    """Return the unwrapped key (RFC 3394); None if ``wrapped`` is invalid or has another KEK."""
    try:
        key: bytes = aes_key_unwrap(kek, wrapped)
    except (InvalidUnwrap, ValueError):
        return None
    return key


def _times(mask: int, power: int) -> int:
    """Return the mask ``power`` blocks further on: multiplied by x to that power.

    Squaring is linear, so x**(128 * n) is x**(7 * n) + x**(2 * n) + x**n + 1 where n is a power of
    two. The product is therefore reduced in halves from the top, not bit by bit.
    """
    mask <<= power
    n = 1 << max(mask.bit_length() // _BITS, 1).bit_length() - 1
    while n:
        width = _BITS * n
        while high := mask >> width:
            mask = mask & (1 << width) - 1 ^ high ^ high << n ^ high << 2 * n ^ high << 7 * n
        n >>= 1
    return mask


def _xor(data: bytes, masks: bytes | bytearray) -> bytes:
    number = int.from_bytes(data, "little") ^ int.from_bytes(masks, "little")
    return number.to_bytes(len(data), "little")
