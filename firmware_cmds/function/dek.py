"""Encryption keys of processes: general objects (rdma-core's mlx5dv_dek_create)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

from emu.device.errors import BadParamError
from emu.device.objects.memory.dek import Dek
from firmware_cmds.function.crypto_login import need_login, object_of, unwrap
from layouts.function.crypto import encryption_key_obj

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in

_KEY_BYTES: Final = {0: 16, 1: 32}
"""Size in bytes of each of a DEK's two keys, by key_size."""
_AES_XTS: Final = 3
"""Value of key_purpose."""
_KEYTAG_BYTES: Final = 8
_WRAPPING_BYTES: Final = 8
"""Bytes that AES key wrap adds."""


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Create a key for AES-XTS, in plaintext or wrapped, whichever the adapter requires.

    Return its number. Raises BAD_PARAM_ERR for another purpose or size, and for a key that the
    import KEK has not wrapped. Equal keys for data and tweaks are refused likewise (FIPS 140 IG
    C.I). Raises BAD_RES_STATE_ERR for a caller without the login that wrapped keys need.
    """
    obj = encryption_key_obj.view(object_of(cmd, encryption_key_obj.size))
    if obj.key_purpose != _AES_XTS or obj.key_size not in _KEY_BYTES or obj.sw_wrapped:
        raise BadParamError(
            "encryption key of this kind is not supported",
            f"key_purpose {obj.key_purpose}, key_size {obj.key_size}",
        )  # fmt: skip
    pd, each = tables.pds.need(obj.pd), _KEY_BYTES[obj.key_size]
    size = 2 * each + (_KEYTAG_BYTES if obj.has_keytag else 0)
    if tables.caps.crypto.wrapped_import_method:
        need_login(tables)
        key = unwrap(obj.key[: size + _WRAPPING_BYTES], "key")
    else:
        key = obj.key[:size]
    if hmac.compare_digest(key[:each], key[each : 2 * each]):
        raise BadParamError("both keys of AES-XTS are the same")
    return tables.objects[Dek].add(
        Dek(pd, obj.key_size, key[: 2 * each], key[2 * each :], obj.opaque)
    )


def query(tables: ObjectTables, number: int) -> bytes:
    """Return the key's attributes without the key itself; its state is 0 (ready).

    Raises BAD_RES_ERR for an unknown number, BAD_RES_STATE_ERR without the login that wrapped keys
    need.
    """
    dek = tables.objects[Dek].need(number)
    if tables.caps.crypto.wrapped_import_method:
        need_login(tables)
    obj = encryption_key_obj.new(
        key_size=dek.key_size,
        has_keytag=int(bool(dek.keytag)),
        key_purpose=_AES_XTS,
        pd=dek.pd.handle,
        opaque=dek.opaque,
    )
    return bytes(obj.buf)


def destroy(tables: ObjectTables, number: int) -> None:
    """Destroy a key; memory keys that use it allow no access from then on."""
    tables.objects[Dek].remove(number)
