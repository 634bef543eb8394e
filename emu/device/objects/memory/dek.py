"""Data encryption keys (DEKs), and the logins of users that import wrapped keys.

Source: mlx5dv_dek_create(3), mlx5dv_crypto_login_create(3).
"""

from __future__ import annotations

from emu.device.objects.domains import Pd
from emu.device.objects.memory.aes import AesXts
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object


class Dek(Object):
    """A key for AES-XTS. Queries never return the key itself."""

    __slots__ = ("key_size", "keytag", "opaque", "pd", "xts")
    kind = "encryption key"
    numbering = Numbering(lambda made: 1 << made.caps.crypto.log_max_num_deks)
    BASE_BYTES = 2048

    def __init__(self, pd: Pd, key_size: int, keys: bytes, keytag: bytes, opaque: bytes) -> None:
        """Create a DEK; ``keys`` is the data key followed by the tweak key.

        ``keytag`` has eight bytes, or none for a key without a tag.
        """
        super().__init__()
        self.pd = pd
        self.key_size = key_size
        """Size code from the command (encryption_key_obj.key_size)."""
        self.xts = AesXts(keys[: len(keys) // 2], keys[len(keys) // 2 :])
        self.keytag = keytag
        self.opaque = opaque
        """Opaque data of the owner."""

    def about(self) -> dict[str, object]:
        return {"pd": self.pd.handle, "key_size": self.key_size, "keytag": bool(self.keytag)}

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)


class CryptoLogin(Object):
    """A login with the right credential: its user context may import wrapped keys."""

    __slots__ = ()
    kind = "crypto login"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_uctx)
