"""A function as a whole: pages, teardown, health, states."""

from __future__ import annotations

from enum import IntEnum


class PageOp(IntEnum):
    """Values of op_mod of MANAGE_PAGES (MLX5_PAGES_*)."""

    CANT_GIVE = 0
    GIVE = 1
    TAKE = 2


class BootPages(IntEnum):
    """Values of op_mod of QUERY_PAGES (MLX5_*_PAGES in core/pagealloc.c)."""

    BOOT = 1
    INIT = 2
    REGULAR = 3


class TeardownProfile(IntEnum):
    """Profiles of TEARDOWN_HCA (MLX5_TEARDOWN_HCA_IN_PROFILE_*)."""

    GRACEFUL_CLOSE = 0
    FORCE_CLOSE = 1
    PREPARE_FAST_TEARDOWN = 2


class HealthSyndrome(IntEnum):
    """Errors of the firmware (MLX5_INITIAL_SEG_HEALTH_SYNDROME_*)."""

    FW_INTERNAL_ERR = 1


class NicInterface(IntEnum):
    """Interface states of the function (MLX5_INITIAL_SEG_NIC_INTERFACE_*)."""

    FULL_DRIVER = 0
    DISABLED = 1
    NO_DRAM_NIC = 2
    SW_RESET = 7


class VhcaState(IntEnum):
    """States of a sub-function (MLX5_VHCA_STATE_*)."""

    INVALID = 0x0
    ALLOCATED = 0x1
    ACTIVE = 0x2
    IN_USE = 0x3
    TEARDOWN_REQUEST = 0x4
