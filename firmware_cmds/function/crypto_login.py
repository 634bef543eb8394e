"""Crypto logins: general objects of those who bring wrapped keys (mlx5dv_crypto_login_create).

An adapter takes encryption keys either in plaintext or wrapped by its import KEK (RFC 3394).
Wrapped ones may only be brought and looked at by a user context with a login, which has shown the
adapter's credential, wrapped as well.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from emu.device.errors import CmdError
from emu.device.models.crypto import CREDENTIAL, IMPORT_KEK
from emu.device.objects.memory.aes import unwrap_key
from emu.device.objects.memory.dek import CryptoLogin
from firmware_cmds.given_object import given_object
from layouts.enums import Status
from layouts.function.crypto import crypto_login_obj

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from layouts.objects.general_object import CreateGeneralObjectIn


def object_of(cmd: CreateGeneralObjectIn, size: int) -> bytes:
    """The one object that a command brings; what it does not bring of it is zeros."""
    if cmd.log_obj_range:
        raise CmdError(Status.LIM_ERR, "one command makes one crypto object")
    return given_object(cmd.object, size)


def unwrap(wrapped: bytes, what: str) -> bytes:
    """Raises BAD_PARAM_ERR for what has not been wrapped by the import KEK."""
    key = unwrap_key(IMPORT_KEK, wrapped)
    if key is None:
        raise CmdError(Status.BAD_PARAM_ERR, "not wrapped by the adapter's import KEK", what)
    return key


def need_login(hca: Hca) -> None:
    """Raises BAD_RES_STATE_ERR for a caller without a login."""
    uid = hca.caller.uid
    if not any(login.uid == uid for login in hca.objects[CryptoLogin]):
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "user context has no crypto login", f"uid {uid:#x}"
        )


def create(hca: Hca, cmd: CreateGeneralObjectIn) -> int:
    """Let in who shows the credential; returns the login's number."""
    obj = crypto_login_obj.view(object_of(cmd, crypto_login_obj.size))
    if obj.credential_pointer or obj.session_import_kek_ptr:
        raise CmdError(
            Status.BAD_PARAM_ERR, "no such credential or import KEK",
            f"{obj.credential_pointer}, {obj.session_import_kek_ptr}",
        )  # fmt: skip
    if not hmac.compare_digest(unwrap(obj.credential, "credential"), CREDENTIAL):
        raise CmdError(Status.BAD_PARAM_ERR, "wrong credential")
    return hca.objects[CryptoLogin].add(CryptoLogin())


def query(hca: Hca, number: int) -> bytes:
    """It is valid (state 0), by KEK 0 and credential 0."""
    hca.objects[CryptoLogin].need(number)
    return bytes(crypto_login_obj.new().buf)


def destroy(hca: Hca, number: int) -> None:
    """Log out. Keys that have been brought stay."""
    hca.objects[CryptoLogin].remove(number)
