"""The adapter's credential and keys for rdma-core's tests of encryption.

The tests read a file that the adapter's administrator writes (tests/test_mlx5_crypto.py). The
emulated adapter's credential and import KEK are known, so the file can be generated.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from emu.device.models.crypto import CREDENTIAL, IMPORT_KEK
from emu.device.objects.memory.aes import HAS_AES, AesXts, wrap_key

PATH: Final = "/tmp/mlx5_crypto_test.txt"  # the tests' own choice, in the guest
_KEY: Final = bytes(range(1, 33))
_KEY_256: Final = bytes(range(64, 128))
_UNIT: Final = 512
_UNIT_LETTERS: Final = b"c" * _UNIT


def _encrypted(units: int) -> bytes:
    """Return the letters encrypted in data units whose tweaks count from 0."""
    xts = AesXts(_KEY[:16], _KEY[16:])
    return b"".join(xts.apply(_UNIT_LETTERS, unit, 0, encrypts=True) for unit in range(units))


def _words(form: str, data: bytes) -> list[int]:
    return [*struct.unpack(f"{form[0]}{len(data) // struct.calcsize(form)}{form[1]}", data)]


def details() -> str:
    """Return the JSON text of the file: one object of credential, keys and encrypted test data.

    Each is a list of numbers, which the tests pack again. Return an empty text without the package
    that has AES, because no adapter encrypts then.
    """
    if not HAS_AES:
        return ""
    return json.dumps(
        [
            {
                "credential": _words(">Q", wrap_key(IMPORT_KEK, CREDENTIAL)),
                "wrapped_key": _words(">Q", wrap_key(IMPORT_KEK, _KEY)),
                "wrapped_256_bits_key": _words(">Q", wrap_key(IMPORT_KEK, _KEY_256)),
                "plaintext_key": _words("<I", _KEY),
                "plaintext_256_bits_key": _words("<I", _KEY_256),
                "encrypted_data_for_512_c": _words(">Q", _encrypted(1)),
                "encrypted_data_for_1024_c": _words(">Q", _encrypted(2)),
            }
        ]
    )
