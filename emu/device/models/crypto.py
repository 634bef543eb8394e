"""Adapters that encrypt: AES-XTS with keys from processes, in plaintext or wrapped.

Encryption is an option of an adapter, see :func:`with_crypto`; real adapters are sold with or
without it.

Source: mlx5dv_dek_create(3), mlx5dv_crypto_login_create(3); DPDK's guide to its mlx5 crypto driver,
which lists the adapters and how to make one operational.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from emu.device.models.model import Capabilities, Model, group
from layouts.enums.general_object import GeneralObject


class KeyImport(IntEnum):
    """Import methods of keys; an adapter has one of them."""

    PLAINTEXT = 1
    WRAPPED = 2


FIRST_HW_ID: Final = 0x20F
"""ConnectX-6; later chips have higher numbers."""
_MULTI_BLOCK_SINCE: Final = 0x218

IMPORT_KEK: Final = bytes(range(16))
"""The key that wraps others (import KEK 0), of an adapter with wrapped keys."""
CREDENTIAL: Final = bytes(range(0x80, 0xA8))
"""The credential of a login (credential 0). On a real adapter the crypto officer sets both."""

_OBJECTS: Final = 1 << GeneralObject.ENCRYPTION_KEY
_LOGINS: Final = 1 << GeneralObject.CRYPTO_LOGIN
_BY_AES_KEY_WRAP: Final = 1 << 2

CRYPTO: Capabilities = group(log_max_num_deks=16)
"""Group CRYPTO."""
OF_WRAPPED: Capabilities = group(
    wrapped_crypto_operational=1,
    wrapped_import_method=_BY_AES_KEY_WRAP,
    num_nv_import_keks=1,
    num_nv_credentials=1,
)
"""The same group for wrapped keys: operational, with one KEK and one credential."""

KEY_IMPORTS: Mapping[str, KeyImport] = MappingProxyType(
    {method.name.lower(): method for method in KeyImport}
)
"""Import methods by their command line names."""


def with_crypto(model: Model, method: KeyImport) -> Model:
    """Return a copy of the model with AES-XTS and this method of key import.

    Raises ValueError for a model that never has encryption. Up to ConnectX-6 Dx a message is one
    data unit; since ConnectX-7 it may be several.
    """
    if model.hw_id < FIRST_HW_ID:
        raise ValueError(f"{model.name} has no encryption")
    is_wrapped = method is KeyImport.WRAPPED
    multi = model.hw_id >= _MULTI_BLOCK_SINCE
    tweak = "aes_xts_multi_block_be_tweak" if multi else "aes_xts_single_block_le_tweak"
    objects = model.general["general_obj_types"] | _OBJECTS | (_LOGINS if is_wrapped else 0)
    general = {"crypto": 1, tweak: 1, "general_obj_types": objects}
    return model.extended(general=general, crypto=group(CRYPTO, OF_WRAPPED if is_wrapped else {}))
