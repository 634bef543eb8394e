"""Keys that encrypt, as mlx5dv configures them, and the encryption keys that they use.

Source: rdma-core providers/mlx5/verbs.c (_mlx5dv_dek_create), qp.c (mlx5_umr_fill_crypto_bsf).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emu.driver.command.driver import Driver
from emu.driver.keys.signatures import SELECTORS, Domain, SignatureKey
from emu.driver.verbs.endpoint import Endpoint
from layouts.enums.cmd import Op
from layouts.enums.general_object import GeneralObject
from layouts.function.crypto import crypto_login_obj, encryption_key_obj
from layouts.rings.wqe import crypto_bsf

WIRE_SIGNATURE, MEMORY_SIGNATURE, RAW_WIRE, RAW_MEMORY = range(4)
"""Values of enc_order: the encrypted side, and the data that signatures cover."""
UNITS = {**SELECTORS, 1 << 20: 5}
AES_XTS = 3
_SIZE_OF_ONE, _SIZE_OF_BOTH, _CRYPTO = 2 << 6, 3 << 6, 1
_BSF_OCTWORDS = 4


def dek_fields(pdn: int, key: bytes, size: int = 0, **fields: Any) -> dict[str, Any]:
    """Return the fields of CREATE_GENERAL_OBJECT for an AES-XTS key; ``size`` is key_size."""
    values: dict[str, Any] = {"key_size": size, "key_purpose": AES_XTS, "pd": pdn} | fields
    obj = encryption_key_obj.new(key=key.ljust(128, b"\0"), **values)
    return {"op_mod": GeneralObject.ENCRYPTION_KEY, "extra": bytes(obj.buf)}


def create_dek(node: Endpoint, key: bytes, size: int = 0, **fields: Any) -> int:
    """Create an encryption key (mlx5dv_dek_create); return its number.

    Raises DriverError when it is refused.
    """
    given = dek_fields(node.pdn, key, size, **fields)
    return int(node.driver.must(Op.CREATE_GENERAL_OBJECT, **given).obj_id)


def login_fields(credential: bytes, **fields: Any) -> dict[str, Any]:
    """Return fields of CREATE_GENERAL_OBJECT for a login."""
    obj = crypto_login_obj.new(credential=credential, **fields)
    return {"op_mod": GeneralObject.CRYPTO_LOGIN, "extra": bytes(obj.buf)}


def login(driver: Driver, credential: bytes, *, uid: int = 0) -> int:
    """Log in (mlx5dv_crypto_login); return the login's number.

    Raises DriverError when it is refused.
    """
    given = login_fields(credential)
    return int(driver.must(Op.CREATE_GENERAL_OBJECT, uid=uid, **given).obj_id)


class CryptoKey(SignatureKey):
    """Key of mlx5dv_create_mkey for encryption, with block signatures or without."""

    def __init__(self, node: Endpoint, *, is_signed: bool = False, **context: Any) -> None:
        """Create the key; ``context`` are fields of mkc."""
        octwords = _BSF_OCTWORDS * (1 + is_signed)
        super().__init__(node, **{"crypto_en": 1, "bsf_octword_size": octwords} | context)
        self.is_signed = is_signed
        self.about: dict[str, Any] = {}

    def encrypt(self, dek: int, order: int, unit: int = 512, tweak: int = 0, **fields: Any) -> None:
        """Store the encryption for the next ``configure``; the device is not changed yet.

        ``unit`` is the data unit in bytes, and ``tweak`` has ConnectX-6's format. Raises KeyError
        for an unsupported unit.
        """
        self.about = {
            "enc_order": order, "raw_data_size": 0xFFFFFFFF, "bs_pointer": UNITS[unit],
            "xts_init_tweak": tweak.to_bytes(16, "little"), "rsvd_dek_ptr": dek,
            "bsf_size_type": (_SIZE_OF_BOTH if self.is_signed else _SIZE_OF_ONE) | _CRYPTO,
        } | fields  # fmt: skip

    def bsf(
        self, mem: Domain | None, wire: Domain | None, check: int, copy: int | None,
        wrong: Mapping[str, Any] | None = None,
    ) -> bytes:  # fmt: skip
        """Return the encryption segment, behind the signatures' BSF if the key is signed.

        ``wrong`` replaces fields of the encryption segment only.
        """
        own = bytes(crypto_bsf.new(**self.about | dict(wrong or {})).buf)
        if not self.is_signed:
            return own
        same = _SIZE_OF_BOTH | ((copy is not None) << 4)
        return super().bsf(mem, wire, check, copy, {"bsf_size_sbs": same}) + own
