"""The PCI side of the function: its identity and its configuration space, as data."""

from emu.device.pci.aer import Correctable, Uncorrectable
from emu.device.pci.config import ConfigSpace
from emu.device.pci.identity import CLASS_ETHERNET, CLASS_INFINIBAND, LinkSpeed, PciIdentity
from emu.device.pci.registers import SPACE_BYTES
from emu.device.pci.sriov import SriovLayout
from emu.device.pci.vsc import CrSpaceAccess

__all__ = [
    "CLASS_ETHERNET", "CLASS_INFINIBAND", "SPACE_BYTES", "ConfigSpace", "Correctable",
    "CrSpaceAccess", "LinkSpeed", "PciIdentity", "SriovLayout", "Uncorrectable",
]  # fmt: skip
