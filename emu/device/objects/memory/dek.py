"""Data encryption keys (DEKs), and the logins of those who bring them wrapped.

Source: mlx5dv_dek_create(3), mlx5dv_crypto_login_create(3).
"""

from __future__ import annotations

from emu.device.objects.domains import Pd
from emu.device.objects.memory.aes import AesXts
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object


class Dek(Object):
    """A key for AES-XTS. What it is cannot be read back."""

    __slots__ = ("key_size", "keytag", "opaque", "pd", "xts")
    kind = "encryption key"
    numbering = Numbering(lambda made: 1 << made.caps.crypto.log_max_num_deks)
    BASE_BYTES = 2048

    def __init__(self, pd: Pd, key_size: int, keys: bytes, keytag: bytes, opaque: bytes) -> None:
        """``keys`` are the key for data and the one for tweaks, one behind the other.

        ``keytag`` has eight bytes, or none for a key without one.
        """
        super().__init__()
        self.pd = pd
        self.key_size = key_size
        """As the command has given it (encryption_key_obj.key_size)."""
        self.xts = AesXts(keys[: len(keys) // 2], keys[len(keys) // 2 :])
        self.keytag = keytag
        self.opaque = opaque
        """What its owner has written on it."""

    def about(self) -> dict[str, object]:
        return {"pd": self.pd.handle, "key_size": self.key_size, "keytag": bool(self.keytag)}

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)


class CryptoLogin(Object):
    """Somebody who has shown the credential: its user context may bring wrapped keys."""

    __slots__ = ()
    kind = "crypto login"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_uctx)
