"""The wire formats: vhost-user messages, the rings of virtio, and PCI accesses in their buffers.

Sources: QEMU's docs/interop/vhost-user.rst; Virtual I/O Device 1.2, 2.7 "Split Virtqueues";
include/uapi/linux/virtio_pcidev.h and arch/um/drivers/vhost_user.h of Linux 6.12. All fields are in
host byte order, without padding.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

from emu.server.vfio.protocol import VfioProtocolError

HEADER: Final = Struct("=III")
"""request, flags, size of the payload."""

U64: Final = Struct("=Q")

VRING_STATE: Final = Struct("=II")
"""index, num."""

VRING_ADDR: Final = Struct("=IIQQQQ")
"""index, flags, and the addresses of desc, used, avail and log in the front end's process."""

MEM_TABLE: Final = Struct("=II")
"""nregions, padding; that many MEM_REGION follow."""

MEM_REGION: Final = Struct("=QQQQ")
"""guest_phys_addr, memory_size, userspace_addr, mmap_offset."""

DESCRIPTOR: Final = Struct("=QIHH")
"""struct vring_desc: addr, len, flags, next."""

USED_ELEMENT: Final = Struct("=II")
"""struct vring_used_elem: id, len."""

U16: Final = Struct("=H")

PCIDEV_MESSAGE: Final = Struct("=BBHIQ")
"""struct virtio_pcidev_msg: op, bar, reserved, size, addr; data follow."""

VERSION: Final = 1
MAX_PAYLOAD: Final = 4096
MAX_REGIONS: Final = 8
"""VHOST_MEMORY_BASELINE_NREGIONS; User-Mode Linux has one or two."""
MAX_QUEUE_SIZE: Final = 1024
"""Maximum entries of a queue; User-Mode Linux uses 256 (virtio_uml.c: MAX_SUPPORTED_QUEUE_SIZE)."""
MAX_ACCESS: Final = 1 << 16
"""Maximum bytes of an access to a BAR."""


class VhostMessageFlag(IntFlag):
    """Bits of the header's flags above the version."""

    VERSION_MASK = 0x3
    REPLY = 0x4
    NEED_REPLY = 0x8


class VhostRequest(IntEnum):
    """The supported requests of the front end."""

    GET_FEATURES = 1
    SET_FEATURES = 2
    SET_OWNER = 3
    SET_MEM_TABLE = 5
    SET_VRING_NUM = 8
    SET_VRING_ADDR = 9
    SET_VRING_BASE = 10
    GET_VRING_BASE = 11
    GET_PROTOCOL_FEATURES = 15
    SET_PROTOCOL_FEATURES = 16
    SET_VRING_ENABLE = 18
    SET_BACKEND_REQ_FD = 21
    VRING_KICK = 35


BACKEND_VRING_CALL: Final = 4
"""VHOST_USER_BACKEND_VRING_CALL, our only request to the front end."""


class Feature(IntFlag):
    """Virtio features that we offer."""

    PROTOCOL_FEATURES = 1 << 30
    VERSION_1 = 1 << 32


class ProtocolFeature(IntFlag):
    """vhost-user features that we offer and require: kicks and calls are messages."""

    REPLY_ACK = 1 << 3
    BACKEND_REQ = 1 << 5
    INBAND_NOTIFICATIONS = 1 << 14


FEATURES: Final = int(Feature.PROTOCOL_FEATURES | Feature.VERSION_1)
PROTOCOL_FEATURES: Final = int(
    ProtocolFeature.REPLY_ACK | ProtocolFeature.BACKEND_REQ | ProtocolFeature.INBAND_NOTIFICATIONS
)


class DescriptorFlag(IntFlag):
    """VRING_DESC_F_*."""

    NEXT = 1
    WRITE = 2
    INDIRECT = 4


NO_INTERRUPT: Final = 1
"""VRING_AVAIL_F_NO_INTERRUPT: the driver requests no call."""


class PcidevOp(IntEnum):
    """enum virtio_pcidev_ops."""

    CFG_READ = 1
    CFG_WRITE = 2
    MMIO_READ = 3
    MMIO_WRITE = 4
    MMIO_MEMSET = 5
    """Not supported: Linux up to 6.12 sends CFG_WRITE in its place (virt-pci.c: um_pci_bar_set)."""
    MSI = 7


class VhostProtocolError(VfioProtocolError):
    """A front end that breaks the protocol and is dropped."""


def request_name(request: int) -> str:
    """Return a request's name for a log line; ``request N`` if unknown."""
    try:
        return VhostRequest(request).name
    except ValueError:
        return f"request {request}"
