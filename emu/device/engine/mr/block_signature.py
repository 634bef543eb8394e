"""Parses a BSF: block signatures in the memory and the wire domain of a key (PRM "BSF").

A domain is a stream of blocks, each followed by its signature: T10-DIF's eight bytes of guard,
application tag and reference tag, or a CRC. Signatures are handled as 64-bit values whose bytes the
masks of the BSF name: a CRC of 32 bits is the upper half (mlx5dv_wr_set_mkey_sig_block(3)).

Sources: qp.h (mlx5_bsf) and hw/wr.c (mlx5_set_bsf) of Linux 6.12; rdma-core providers/mlx5/qp.c.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import TYPE_CHECKING, Final

from emu.device.engine.mr import checksums
from emu.device.objects.memory.psv import Psv
from layouts.rings.wqe import bsf as bsf_layout

if TYPE_CHECKING:
    from layouts.rings.wqe import bsf_inl

BSF_OCTWORDS: Final = bsf_layout.size // 16

BLOCK_BYTES: Final[Mapping[int, int]] = {1: 512, 2: 520, 3: 4096, 4: 4160, 6: 4048}
"""Block sizes in bytes by bs_selector."""

_SIZE_WITH_INLINE: Final = 2
_SIZE_WITH_CRYPTO: Final = 3
"""bsf_size_sbs with a second BSF, for encryption."""
_SAME_BLOCK_STRUCTURE: Final = 1 << 4
_INLINE_VALID: Final = 1 << 15
_SEED: Final = 1 << 3
_INCREMENT_REF_TAG: Final = 1 << 6
_ALL_ONES: Final = (1 << 64) - 1


class BsfError(Exception):
    """A BSF that this device does not support."""


class Escape(IntFlag):
    """T10-DIF tags whose all-ones value exempts a block from checking."""

    APP = 1
    APP_AND_REF = 2


class Syndrome(IntFlag):
    """Errors of a signature (sig_err_cqe.syndrome)."""

    REF_TAG = 1 << 11
    APP_TAG = 1 << 12
    GUARD = 1 << 13


class Form(Enum):
    """Kinds of signatures."""

    T10_CRC = "T10-DIF, CRC"
    T10_CHECKSUM = "T10-DIF, IP checksum"
    CRC32 = "CRC32"
    CRC32C = "CRC32C"
    CRC64 = "CRC64"

    @property
    def is_dif(self) -> bool:
        """Whether guard and tags make up the signature."""
        return self in (Form.T10_CRC, Form.T10_CHECKSUM)


_FORMATS: Final[Mapping[int, Form]] = {0x2: Form.CRC32, 0x4: Form.CRC32C, 0x5: Form.CRC64}
"""Signature by the upper half of the block format selector; 0 is described inline."""

_DIF_TYPES: Final[Mapping[int, Form]] = {1: Form.T10_CRC, 2: Form.T10_CHECKSUM}


PsvOf = Callable[[int], "Psv | None"]


@dataclass(frozen=True, slots=True)
class Domain:
    """Blocks of data, and the kind of signature that follows each."""

    form: Form
    block: int
    psv: Psv
    """Signature value whose ``transient_sig`` seeds the CRCs."""
    seed: int = 0
    app_tag: int = 0
    app_mask: int = 0xFFFF
    ref_tag: int = 0
    increments: bool = False
    """Whether the reference tag counts the blocks."""
    escape: Escape | None = None

    @property
    def size(self) -> int:
        """Bytes of a signature."""
        return 4 if self.form in (Form.CRC32, Form.CRC32C) else 8

    def sign(self, data: bytes, index: int) -> int:
        """Return the computed signature of ``data``, the block with number ``index``, as 64 bits.

        A 32-bit CRC is in the upper half. The value is guard, application tag and reference tag for
        T10-DIF.
        """
        if self.form is Form.CRC32:
            return checksums.crc32(data, self.psv.transient_sig >> 32) << 32
        if self.form is Form.CRC32C:
            return checksums.crc32c(data, self.psv.transient_sig >> 32) << 32
        if self.form is Form.CRC64:
            return checksums.crc64_xp10(data, self.psv.transient_sig)
        guard = checksums.t10_crc if self.form is Form.T10_CRC else checksums.ip_checksum
        ref_tag = self.ref_tag + (index if self.increments else 0) & 0xFFFFFFFF
        return guard(data, self.seed) << 48 | self.app_tag << 32 | ref_tag

    def encode(self, value: int) -> bytes:
        """Return the bytes of a signature in memory: T10-DIF big-endian, CRCs least byte first."""
        if self.form.is_dif:
            return value.to_bytes(8, "big")
        return (value if self.size == 8 else value >> 32).to_bytes(self.size, "little")

    def decode(self, raw: bytes | bytearray) -> int:
        """Return the value of a signature in memory."""
        if self.form.is_dif:
            return int.from_bytes(raw, "big")
        value = int.from_bytes(raw, "little")
        return value if self.size == 8 else value << 32

    def compare(self, actual: int, computed: int, mask: int) -> Syndrome:
        """Return the first difference under the mask: GUARD, APP_TAG or REF_TAG; 0 without one.

        A T10-DIF block whose tags are the escape value never differs. Any difference of a CRC is
        GUARD.
        """
        if self.form.is_dif:
            if self._is_escaped(actual):
                return Syndrome(0)
            mask &= _ALL_ONES & ~(0xFFFF << 32) | self.app_mask << 32
        wrong = (actual ^ computed) & mask
        if not wrong:
            return Syndrome(0)
        if not self.form.is_dif or wrong >> 48:
            return Syndrome.GUARD
        return Syndrome.APP_TAG if wrong >> 32 else Syndrome.REF_TAG

    def _is_escaped(self, actual: int) -> bool:
        if not self.escape or actual >> 32 & 0xFFFF != 0xFFFF:
            return False
        return bool(self.escape & Escape.APP) or actual & 0xFFFFFFFF == 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class BlockSignature:
    """Parsed BSF. A domain that is None is plain data."""

    mem: Domain | None
    wire: Domain | None
    check_mask: int
    """Bits of the input domain's signatures that are compared."""
    copy_mask: int
    """Bits that are copied from one domain to the other unchanged; 0 where the domains differ."""

    @classmethod
    def parse(cls, raw: bytes, psv_of: PsvOf) -> BlockSignature:
        """Parse a BSF; ``psv_of`` finds the signature values (PSVs) of the key's domain.

        Raises BsfError for an unsupported size, block size, format or inline segment, and for an
        unknown PSV. Raises BsfError also when domains marked as equal differ.
        """
        view = bsf_layout.view(raw)
        basic = view.basic
        if basic.bsf_size_sbs >> 6 not in (_SIZE_WITH_INLINE, _SIZE_WITH_CRYPTO):
            raise BsfError(
                f"bsf_size_sbs {basic.bsf_size_sbs:#x}: only the inline form is supported"
            )
        is_same = bool(basic.bsf_size_sbs & _SAME_BLOCK_STRUCTURE)
        mem = _domain(basic.mem, basic.m_bfs_psv, view.m_inl, psv_of)
        selector = basic.mem if is_same else basic.wire
        wire = _domain(selector, basic.w_bfs_psv, view.w_inl, psv_of)
        if is_same and (mem is None or wire is None or mem.size != wire.size):
            raise BsfError("the domains do not have the same structure")
        copy_mask = _bytes_mask(basic.wire) if is_same else 0
        return cls(mem, wire, _bytes_mask(basic.check_byte_mask), copy_mask)

    def merge(self, computed: int, source: int) -> int:
        """Return a signature of the output domain: computed, except for the copied bytes."""
        return computed & ~self.copy_mask | source & self.copy_mask


def _domain(selector: int, bfs_psv: int, inline: bsf_inl, psv_of: PsvOf) -> Domain | None:
    """Return one parsed domain, or None where ``selector`` is 0: plain data. Raise BsfError."""
    if not selector:
        return None
    if selector not in BLOCK_BYTES:
        raise BsfError(f"bs_selector {selector} is not supported")
    psv = psv_of(bfs_psv & 0xFFFFFF)
    if psv is None:
        raise BsfError(f"no psv {bfs_psv & 0xFFFFFF:#x} in the domain")
    block, bfs = BLOCK_BYTES[selector], bfs_psv >> 24
    if bfs:
        if bfs >> 4 not in _FORMATS:
            raise BsfError(f"block format {bfs:#x} is not supported")
        return Domain(_FORMATS[bfs >> 4], block, psv)
    if not inline.vld_refresh & _INLINE_VALID or inline.sig_type not in _DIF_TYPES:
        raise BsfError(f"T10-DIF without its inline segment, or of type {inline.sig_type}")
    checks = inline.dif_inc_ref_guard_check
    return Domain(
        _DIF_TYPES[inline.sig_type],
        block,
        psv,
        seed=0xFFFF if inline.rp_inv_seed & _SEED else 0,
        app_tag=inline.dif_apptag,
        app_mask=inline.dif_app_bitmask_check,
        ref_tag=inline.dif_reftag,
        increments=bool(checks & _INCREMENT_REF_TAG),
        escape=Escape(checks & 0b11),
    )


def _bytes_mask(bits: int) -> int:
    """Return a mask of bits for a mask of bytes."""
    return sum(0xFF << 8 * bit for bit in range(8) if bits >> bit & 1)
