"""Keys with block signatures, as mlx5dv configures them (rdma-core providers/mlx5/qp.c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from emu.driver.keys.umr import ANY_QPN, FREE, KEY, LEN, LW, RR, RW, START, A, pad64, umr
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.outcomes import good
from emu.driver.verbs.queue_pair import QueuePair
from emu.driver.verbs.segments import Sge
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import KLM, SET_PSV, bsf

EN_SIGERR, BSF_EN = 1 << 9, 1 << 12
MASK = FREE | KEY | LEN | START | LW | RR | RW | A | EN_SIGERR | BSF_EN
CHECK_ALL, CHECK_GUARD, CHECK_APP, CHECK_REF = 0xFF, 0xC0, 0x30, 0x0F
SELECTORS = {512: 1, 520: 2, 4096: 3, 4160: 4, 4048: 6}
CRC32, CRC32C, CRC64 = 0x20, 0x40, 0x50
DIF_CRC, DIF_CHECKSUM = 1, 2


@dataclass
class Dif:
    """T10-DIF signature of a domain."""

    block: int = 512
    kind: int = DIF_CRC
    seed: int = 0xFFFF
    app: int = 0xABCD
    ref: int = 0x01234567
    increments: bool = True
    escape: int = 0
    app_mask: int = 0xFFFF
    bfs: ClassVar[int] = 0

    def inline(self) -> dict[str, int]:
        """Return fields of a BSF's inline section."""
        return {
            "vld_refresh": 0xC000, "dif_apptag": self.app, "dif_reftag": self.ref,
            "sig_type": self.kind, "rp_inv_seed": 0x80 | (8 if self.seed else 0),
            "dif_inc_ref_guard_check": (0x40 if self.increments else 0) | self.escape,
            "dif_app_bitmask_check": self.app_mask,
        }  # fmt: skip

    @property
    def transient(self) -> int:
        """The transient signature of the PSV, 64 bits."""
        return self.seed << 48 | self.app << 32 | self.ref


@dataclass
class Crc:
    """CRC signature of a domain."""

    block: int = 512
    bfs: int = CRC32
    seed: int = 0xFFFFFFFF

    def inline(self) -> dict[str, int]:
        """Return no fields: a CRC has no inline section."""
        return {}

    @property
    def transient(self) -> int:
        """The transient signature of the PSV, 64 bits."""
        return self.seed if self.bfs == CRC64 else self.seed << 32


Domain = Dif | Crc
"""Signature of one of a key's two domains, memory and wire."""


class SignatureKey:
    """Key of mlx5dv_create_mkey with block signatures."""

    def __init__(self, node: Endpoint, **context: Any) -> None:
        """Create the key; ``context`` are fields of mkc."""
        self.node = node
        psvs = node.driver.must(Op.CREATE_PSV, pd=node.pdn, num_psv=2)
        self.mem_psv, self.wire_psv = psvs.psv0_index, psvs.psv1_index
        fields = {
            "pd": node.pdn, "free": 1, "umr_en": 1, "qpn": ANY_QPN, "lr": 1, "bsf_en": 1,
            "access_mode_1_0": AccessMode.KLMS, "translations_octword_size": 4,
            "bsf_octword_size": 4,
        } | context  # fmt: skip
        self.index: int = node.driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=fields).mkey_index
        self.key = self.index << 8
        self.sigerr = 0

    def configure(
        self, qp: QueuePair, ranges: Sequence[Sge], *, mem: Domain | None = None,
        wire: Domain | None = None, check: int = CHECK_ALL, **options: Any,
    ) -> Self:  # fmt: skip
        """Post a UMR with list and BSF, then set the PSVs; run the node and return the key.

        The first byte has address 0. ``options`` are those of ``post``. Raises DriverError if a WQE
        fails.
        """
        self.post(qp, ranges, mem, wire, check, **options)
        for domain, number in ((mem, self.mem_psv), (wire, self.wire_psv)):
            if domain is not None:
                value = domain.transient
                qp.post(Opcode.SET_PSV, SET_PSV.pack(number, 0, value >> 32, value & 0xFFFFFFFF))
        self.node.settle()
        good(qp)
        return self

    def post(
        self, qp: QueuePair, ranges: Sequence[Sge], mem: Domain | None, wire: Domain | None,
        check: int = CHECK_ALL, copy: int | None = None, wrong: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Post only the UMR, without waiting; the expected SIGERR count changes.

        ``copy`` masks the bytes that a domain copies unchanged from the other one. ``wrong``
        replaces fields of the BSF.
        """
        self.sigerr ^= 1
        xlt = pad64(b"".join(KLM.pack(size, key, va) for size, key, va in ranges))
        umr(
            qp, self.key, flags=0, mask=MASK,
            xlt=xlt, bsf=self.bsf(mem, wire, check, copy, wrong), bsf_en=1,
            len=sum(size for size, *_ in ranges), lw=1, rr=1, rw=1, umr_en=1, qpn=ANY_QPN,
            expected_sigerr_count=self.sigerr,
        )  # fmt: skip

    def bsf(
        self, mem: Domain | None, wire: Domain | None, check: int, copy: int | None,
        wrong: Mapping[str, Any] | None = None,
    ) -> bytes:  # fmt: skip
        """Return the BSF; ``wrong`` replaces fields of its basic section."""
        same = copy is not None
        basic: dict[str, Any] = {
            "bsf_size_sbs": 2 << 6 | (same << 4), "check_byte_mask": check,
            "raw_data_size": 0xFFFFFFFF,
        }  # fmt: skip
        inline: dict[str, Any] = {}
        if mem is not None:
            basic |= {"mem": SELECTORS[mem.block], "m_bfs_psv": mem.bfs << 24 | self.mem_psv}
            inline["m_inl"] = mem.inline()
        if wire is not None:
            basic |= {"wire": copy if same else SELECTORS[wire.block]}
            basic |= {"w_bfs_psv": wire.bfs << 24 | self.wire_psv}
            inline["w_inl"] = wire.inline()
        return bytes(bsf.new(basic=basic | dict(wrong or {}), **inline).buf)
