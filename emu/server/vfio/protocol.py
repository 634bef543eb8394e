"""The vfio-user wire format: commands, flags and the fixed fields of the supported messages.

Source: the vfio-user protocol specification, version 0.9.2 (QEMU: docs/interop/vfio-user.rst) and,
for the structures it borrows, linux/vfio.h. All fields are in host byte order, without padding.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct

MAJOR, MINOR = 0, 0

HEADER = Struct("=HHIII")
"""msg_id, cmd, msg_size (header included), flags, error_no."""

REGION_ACCESS = Struct("=QII")
"""offset, region, count; the data follow it."""

REGION_REQUEST = Struct("=HHIIIQII")
"""HEADER and REGION_ACCESS in a single struct, for the hot path."""

VERSION = Struct("=HH")
"""major, minor; JSON and a NUL may follow."""

DMA_MAP = Struct("=IIQQQ")
"""argsz, flags, offset in the file, iova, size."""

DMA_UNMAP = Struct("=IIQQ")
"""argsz, flags, iova, size."""

DEVICE_INFO = Struct("=IIII")
"""argsz, flags, num_regions, num_irqs: struct vfio_device_info."""

REGION_INFO = Struct("=IIIIQQ")
"""argsz, flags, index, cap_offset, size, offset: struct vfio_region_info."""

IRQ_INFO = Struct("=IIII")
"""argsz, flags, index, count: struct vfio_irq_info."""

IRQ_SET = Struct("=IIIII")
"""argsz, flags, index, start, count: struct vfio_irq_set; DATA_BOOL bytes may follow."""

PAGE_SIZE = 4096
CONFIG_SPACE_SIZE = 4096
MAX_MSG_FDS = 16
MAX_DMA_MAPS = 65535
MAX_DATA_XFER_SIZE = 1 << 20
MAX_VERSION_DATA = 4096
"""Our limit for the JSON; QEMU sends some 200 bytes."""
MAX_MSG_SIZE = REGION_REQUEST.size + MAX_DATA_XFER_SIZE


class VfioCommand(IntEnum):
    """enum vfio_user_command."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    DEVICE_GET_INFO = 4
    DEVICE_GET_REGION_INFO = 5
    DEVICE_GET_REGION_IO_FDS = 6
    DEVICE_GET_IRQ_INFO = 7
    DEVICE_SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DMA_READ = 11
    DMA_WRITE = 12
    DEVICE_RESET = 13
    REGION_WRITE_MULTI = 15
    DEVICE_FEATURE = 16
    MIG_DATA_READ = 17
    MIG_DATA_WRITE = 18


class MessageFlag(IntFlag):
    """The header's flags; the low four bits are the message's type."""

    COMMAND = 0
    REPLY = 1
    TYPE_MASK = 0xF
    NO_REPLY = 0x10
    ERROR = 0x20


class DmaFlag(IntFlag):
    """DMA_MAP flags; MMAP requests that the descriptor is mapped, which we always do."""

    READ = 1
    WRITE = 2
    MMAP = 4


class UnmapFlag(IntFlag):
    """DMA_UNMAP flags (VFIO_DMA_UNMAP_FLAG_*)."""

    GET_DIRTY_BITMAP = 1
    ALL = 2


class DeviceFlag(IntFlag):
    """VFIO_DEVICE_FLAGS_*."""

    RESET = 1
    PCI = 2


class RegionFlag(IntFlag):
    """VFIO_REGION_INFO_FLAG_*."""

    READ = 1
    WRITE = 2
    MMAP = 4
    CAPS = 8


class RegionIndex(IntEnum):
    """VFIO_PCI_*_REGION_INDEX; 0 to 5 are the BARs."""

    ROM = 6
    CONFIG = 7
    VGA = 8


NUM_BARS = 6
NUM_REGIONS = 9


class Irq(IntEnum):
    """VFIO_PCI_*_IRQ_INDEX."""

    INTX = 0
    MSI = 1
    MSIX = 2
    ERR = 3
    REQ = 4


NUM_IRQS = 5


class IrqInfoFlag(IntFlag):
    """VFIO_IRQ_INFO_*."""

    EVENTFD = 1
    MASKABLE = 2
    AUTOMASKED = 4
    NORESIZE = 8


class IrqSetFlag(IntFlag):
    """VFIO_IRQ_SET_*: exactly one DATA and one ACTION bit."""

    DATA_NONE = 0x01
    DATA_BOOL = 0x02
    DATA_EVENTFD = 0x04
    ACTION_MASK = 0x08
    ACTION_UNMASK = 0x10
    ACTION_TRIGGER = 0x20
    DATA_MASK = 0x07
    ACTION_TYPE_MASK = 0x38


class VfioRequestError(Exception):
    """A request that gets an error reply; the request has changed nothing.

    ``errno`` is the reply's error field, the text is for the log.
    """

    def __init__(self, errno: int, why: str) -> None:
        super().__init__(why)
        self.errno = errno


class VfioProtocolError(Exception):
    """A client that must be dropped, because its stream of messages cannot be parsed further."""


def command_name(cmd: int) -> str:
    """Return the command's name in the specification, for a log line; ``command N`` if unknown."""
    try:
        return VfioCommand(cmd).name
    except ValueError:
        return f"command {cmd}"
