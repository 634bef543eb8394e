"""Memory keys (mkc)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class AccessMode(IntEnum):
    """Translation modes of an mkey (MLX5_MKC_ACCESS_MODE_*), five bits split over two fields of
    mkc.
    """

    PA = 0x0
    MTT = 0x1
    KLMS = 0x2
    KSM = 0x3
    SW_ICM = 0x4
    MEMIC = 0x5
    CROSSING = 0x6


class MkeyMask(IntFlag):
    """Fields of a key that a UMR changes (MLX5_MKEY_MASK_*), in wqe_umr_ctrl_seg.mkey_mask."""

    LEN = 1 << 0
    PAGE_SIZE = 1 << 1
    START_ADDR = 1 << 6
    PD = 1 << 7
    EN_RINVAL = 1 << 8
    EN_SIGERR = 1 << 9
    BSF_EN = 1 << 12
    KEY = 1 << 13
    QPN = 1 << 14
    LR = 1 << 17
    LW = 1 << 18
    RR = 1 << 19
    RW = 1 << 20
    A = 1 << 21
    SMALL_FENCE = 1 << 23
    RELAXED_ORDERING_WRITE = 1 << 25
    FREE = 1 << 29
    PAGE_SIZE_5 = 1 << 42
    RELAXED_ORDERING_READ = 1 << 47
