"""Crypto logins: general objects of processes with wrapped keys (mlx5dv_crypto_login_create).

An adapter takes encryption keys either in plaintext or wrapped by its import KEK (RFC 3394). Only a
user context with a login may create or query wrapped keys. A login needs the adapter's credential,
wrapped as well.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from emu.device.errors import BadParamError, CmdError
from emu.device.models.crypto import CREDENTIAL, IMPORT_KEK
from emu.device.objects.memory.aes import unwrap_key
from emu.device.objects.memory.dek import CryptoLogin
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.function.crypto import crypto_login_obj

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in


def object_of(cmd: create_general_object_in, size: int) -> bytes:
    """Return the one object that a command carries; missing bytes are zeros.

    Raises LIM_ERR for log_obj_range, which requests more than one.
    """
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one crypto object")
    return given_object(cmd.object, size)


def unwrap(wrapped: bytes, what: str) -> bytes:
    """Return the unwrapped key; raise BAD_PARAM_ERR if the import KEK has not wrapped it."""
    key = unwrap_key(IMPORT_KEK, wrapped)
    if key is None:
        raise BadParamError("not wrapped by the adapter's import KEK", what)
    return key


def need_login(tables: ObjectTables) -> None:
    """Raise BAD_RES_STATE_ERR for a caller without a login."""
    uid = tables.caller.uid
    if not any(login.uid == uid for login in tables.objects[CryptoLogin]):
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "user context has no crypto login", f"uid {uid:#x}"
        )


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Log in a caller that presents the credential; return the login's number.

    Raises BAD_PARAM_ERR for a wrong credential or a pointer other than 0.
    """
    obj = crypto_login_obj.view(object_of(cmd, crypto_login_obj.size))
    if obj.credential_pointer or obj.session_import_kek_ptr:
        raise BadParamError(
            "credential or import KEK does not exist",
            f"{obj.credential_pointer}, {obj.session_import_kek_ptr}",
        )  # fmt: skip
    if not hmac.compare_digest(unwrap(obj.credential, "credential"), CREDENTIAL):
        raise BadParamError("wrong credential")
    return tables.objects[CryptoLogin].add(CryptoLogin())


def query(tables: ObjectTables, number: int) -> bytes:
    """Return the login's state: valid (0), by KEK 0 and credential 0."""
    tables.objects[CryptoLogin].need(number)
    return bytes(crypto_login_obj.new().buf)


def destroy(tables: ObjectTables, number: int) -> None:
    """Log out. Keys that the login has created stay."""
    tables.objects[CryptoLogin].remove(number)
