"""ctypes declarations of the used functions of libvfio-user.

Source: libvfio-user's include/libvfio-user.h of March 2026, where vfu_setup_device_dma has
``max_regions``. The library promises no stable interface.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_int,
    c_long,
    c_size_t,
    c_ssize_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Final

from emu.server.vfio.base import TransportError

LIBRARY_VARIABLE: Final = "MLX5EMU_LIBVFIO_USER"
_SONAME: Final = "libvfio-user.so.0"

VFU_TRANS_SOCK: Final = 0
VFU_DEV_TYPE_PCI: Final = 0
LIBVFIO_USER_FLAG_ATTACH_NB: Final = 1
VFU_PCI_TYPE_EXPRESS: Final = 3
PCI_HEADER_TYPE_NORMAL: Final = 0
VFU_REGION_FLAG_RW: Final = 3
VFU_REGION_FLAG_MEM: Final = 4
VFU_REGION_FLAG_ALWAYS_CB: Final = 8
VFU_RESET_LOST_CONN: Final = 1
PROT_READ: Final = 1
PROT_WRITE: Final = 2
LOG_ERR: Final = 3
LOG_INFO: Final = 6


class IoVec(Structure):
    """struct iovec."""

    _fields_ = (("iov_base", c_void_p), ("iov_len", c_size_t))


class DmaInfo(Structure):
    """vfu_dma_info_t."""

    _fields_ = (
        ("iova", IoVec),
        ("vaddr", c_void_p),
        ("mapping", IoVec),
        ("page_size", c_size_t),
        ("prot", c_uint32),
    )


LogFn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
RegionAccessFn = CFUNCTYPE(c_ssize_t, c_void_p, c_void_p, c_size_t, c_long, c_bool, use_errno=True)
DmaFn = CFUNCTYPE(None, c_void_p, POINTER(DmaInfo))
ResetFn = CFUNCTYPE(c_int, c_void_p, c_int, use_errno=True)

_PROTOTYPES: Final = {
    "vfu_create_ctx": (c_void_p, (c_int, c_char_p, c_int, c_void_p, c_int)),
    "vfu_realize_ctx": (c_int, (c_void_p,)),
    "vfu_attach_ctx": (c_int, (c_void_p,)),
    "vfu_get_poll_fd": (c_int, (c_void_p,)),
    "vfu_run_ctx": (c_int, (c_void_p,)),
    "vfu_destroy_ctx": (None, (c_void_p,)),
    "vfu_setup_log": (c_int, (c_void_p, LogFn, c_int)),
    "vfu_pci_init": (c_int, (c_void_p, c_int, c_int, c_int)),
    "vfu_setup_region": (
        c_int,
        (
            c_void_p,
            c_int,
            c_size_t,
            RegionAccessFn,
            c_int,
            POINTER(IoVec),
            c_uint32,
            c_int,
            c_uint64,
        ),
    ),
    "vfu_setup_device_reset_cb": (c_int, (c_void_p, ResetFn)),
    "vfu_setup_device_dma": (c_int, (c_void_p, c_size_t, DmaFn, DmaFn)),
    "vfu_setup_device_nr_irqs": (c_int, (c_void_p, c_int, c_uint32)),
    "vfu_irq_trigger": (c_int, (c_void_p, c_uint32)),
}


def load_library() -> ctypes.CDLL:
    """Load libvfio-user and declare every function that we use.

    Uses the file that $MLX5EMU_LIBVFIO_USER names, else the one that the system's loader finds.
    Raises :class:`TransportError` when the library is missing or has another interface.
    """
    name = os.environ.get(LIBRARY_VARIABLE) or ctypes.util.find_library("vfio-user") or _SONAME
    try:
        library = ctypes.CDLL(name, use_errno=True)
        for function, (result, arguments) in _PROTOTYPES.items():
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
    except (OSError, AttributeError) as error:
        raise TransportError(
            f"libvfio-user cannot be used: {error} (set {LIBRARY_VARIABLE} to its path)"
        ) from None
    return library
