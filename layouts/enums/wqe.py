"""Work requests: control, Ethernet and UMR segments."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class Opcode(IntEnum):
    """Send opcodes (MLX5_OPCODE_*), the low byte of a control segment."""

    NOP = 0x00
    SEND_INVAL = 0x01
    RDMA_WRITE = 0x08
    RDMA_WRITE_IMM = 0x09
    SEND = 0x0A
    SEND_IMM = 0x0B
    LSO = 0x0E
    RDMA_READ = 0x10
    ATOMIC_CS = 0x11
    ATOMIC_FA = 0x12
    ATOMIC_MASKED_CS = 0x14
    ATOMIC_MASKED_FA = 0x15
    BIND_MW = 0x18
    SET_PSV = 0x20
    DUMP = 0x23
    UMR = 0x25
    TAG_MATCHING = 0x28
    ENHANCED_MPSW = 0x29
    ACCESS_ASO = 0x2D
    MMO = 0x2F


class UmrFlag(IntFlag):
    """Flags of wqe_umr_ctrl_seg.flags.

    The driver's two names for the states name what a check rejects (MLX5_UMR_CHECK_NOT_FREE is
    0x20). The names here say which state must hold, as in rdma-core.
    """

    CHECK_QPN = 0x08
    TRANSLATION_OFFSET = 0x10
    MUST_BE_FREE = 0x20
    MUST_NOT_BE_FREE = 0x40
    INLINE = 0x80


class EthChecksum(IntFlag):
    """Checksums that the adapter computes: wqe_eth_seg.cs_flags (MLX5_ETH_WQE_*_CSUM)."""

    L3_INNER = 1 << 4
    L4_INNER = 1 << 5
    L3 = 1 << 6
    L4 = 1 << 7
