"""Block signatures and encryption that a UMR sets on a memory key (BSFs).

The BSFs follow the translations: one for signatures, one for encryption, or both in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr.block_signature import BSF_OCTWORDS, BlockSignature, BsfError
from emu.device.engine.mr.crypto import Crypto
from emu.device.engine.mr.signature import Signature
from emu.device.objects.memory.dek import Dek
from emu.device.objects.memory.mkey import OCTWORD, KeySignature, Mkey
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from layouts.enums.mkey import AccessMode

if TYPE_CHECKING:
    from emu.device.objects.memory.psv import Psv
    from emu.device.state.tables import ObjectTables

_LISTS: Final = (AccessMode.KLMS, AccessMode.KSM)
_BSF_BYTES: Final = BSF_OCTWORDS * OCTWORD
_TYPE: Final = 0x0F
_CRYPTO: Final = 1
"""Type of a BSF, in its first byte (MLX5_BSF_TYPE_CRYPTO); 0 is signatures."""
_SIZE_SHIFT: Final = 6
"""Position of the BSFs' size in that byte: 2 for one, 3 for both (MLX5_BSF_SIZE_*)."""
_NOTHING: Final = BlockSignature(None, None, 0, 0)


class BindError(Exception):
    """Refused change of a key: MW_BIND_ERR; ``cause`` is for its completion."""

    def __init__(self, why: str, cause: Cause = Cause.ANY) -> None:
        super().__init__(why)
        self.cause = cause


def read(
    tables: ObjectTables, mkey: Mkey, wqe: Wqe, is_on: bool, at: int, octwords: int
) -> KeySignature | None:
    """Return the key's new signatures and encryption; None (``is_on`` False) turns them off.

    With bsf_en but no BSF the key keeps its current ones, if it has any. Raises BindError for a BSF
    that the key's mode, size or flags do not allow, and for invalid fields. Raises BadWqeError for
    a BSF beyond the WQE. The key is unchanged here.
    """
    if not is_on:
        return None
    if not octwords:
        if mkey.signature is None:
            raise BindError(f"{mkey!r} has no BSF")
        return mkey.signature
    count = octwords // BSF_OCTWORDS
    if octwords % BSF_OCTWORDS or count > 2 or octwords > mkey.bsf_octwords:
        raise BindError(f"BSF of {octwords} octwords, {mkey!r} has {mkey.bsf_octwords}")
    if wqe.ds * OCTWORD < at + octwords * OCTWORD:
        raise BadWqeError("the BSF exceeds the WQE")
    if mkey.mode not in _LISTS:
        raise BindError(f"{mkey!r} is {mkey.mode.name}: only keys over lists of keys have BSFs")
    raw = [wqe.buf[start : start + _BSF_BYTES] for start in _starts(at, count)]
    types = [one[0] & _TYPE for one in raw]
    if any(one[0] >> _SIZE_SHIFT != count + 1 for one in raw):
        raise BindError(f"{mkey!r}: BSF size does not match {count} BSFs")
    try:
        if types in ([_CRYPTO], [0, _CRYPTO]):
            blocks = _NOTHING if len(raw) == 1 else _signatures(tables, mkey, raw[0])
            return Signature(blocks, _crypto(tables, mkey, raw[-1]))
        if types == [0]:
            return Signature(_signatures(tables, mkey, raw[0]))
    except BsfError as error:
        raise BindError(f"{mkey!r}: {error}") from None
    raise BindError(f"{mkey!r}: unsupported BSF types {types}")


def _starts(at: int, count: int) -> range:
    return range(at, at + count * _BSF_BYTES, _BSF_BYTES)


def _signatures(tables: ObjectTables, mkey: Mkey, raw: bytes) -> BlockSignature:
    """Return the block signatures of a BSF; its PSVs must be of the key's domain.

    Raises BsfError for invalid fields or PSVs.
    """

    def psv_of(number: int) -> Psv | None:
        psv = tables.psvs.get(number)
        return psv if psv is not None and psv.pd is mkey.pd else None

    return BlockSignature.parse(raw, psv_of)


def _crypto(tables: ObjectTables, mkey: Mkey, raw: bytes) -> Crypto:
    """Return the encryption of a BSF; its DEK must be of the key's domain.

    Raises BsfError for invalid fields or DEK, and for a key created without crypto_en.
    """
    if not mkey.crypto_en:
        raise BsfError("the key was not created with crypto_en")

    def dek_of(number: int) -> Dek | None:
        dek = tables.objects[Dek].get(number)
        return dek if dek is not None and dek.pd is mkey.pd else None

    is_big_endian = bool(tables.caps.general.aes_xts_multi_block_be_tweak)
    return Crypto.parse(raw, dek_of, is_big_endian=is_big_endian)
