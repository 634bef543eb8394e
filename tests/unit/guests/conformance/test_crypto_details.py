"""The file that tells rdma-core's tests what an adapter's credential and KEK are."""

import json
import struct

import pytest

from emu.device.models.crypto import CREDENTIAL, IMPORT_KEK
from emu.guests.conformance.crypto import details

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
unwrap = pytest.importorskip("cryptography.hazmat.primitives.keywrap").aes_key_unwrap


def test_numbers_as_the_tests_pack_them():
    (found,) = json.loads(details())
    assert unwrap(IMPORT_KEK, struct.pack("!6Q", *found["credential"])) == CREDENTIAL
    for size, words in (("", "8I"), ("_256_bits", "16I")):
        plain = struct.pack(words, *found[f"plaintext{size}_key"])
        wrapped = found[f"wrapped{size}_key"]
        assert unwrap(IMPORT_KEK, struct.pack(f"!{len(wrapped)}Q", *wrapped)) == plain
    key = struct.pack("8I", *found["plaintext_key"])
    for size in (512, 1024):
        words = found[f"encrypted_data_for_{size}_c"]
        first = struct.pack(f"!{len(words)}Q", *words)[:512]
        cipher = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.XTS(bytes(16)))
        decryptor = cipher.decryptor()
        assert decryptor.update(first) + decryptor.finalize() == b"c" * 512
        assert len(words) == size // 8
