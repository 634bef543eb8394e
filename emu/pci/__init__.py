"""The PCI side of the function: its identity and its configuration space, as data."""

from emu.pci.aer import Correctable, Uncorrectable
from emu.pci.config import ConfigSpace
from emu.pci.identity import CLASS_ETHERNET, CLASS_INFINIBAND, LinkSpeed, PciIdentity
from emu.pci.registers import SPACE_BYTES
from emu.pci.vsc import CrSpace

__all__ = [
    "CLASS_ETHERNET",
    "CLASS_INFINIBAND",
    "SPACE_BYTES",
    "ConfigSpace",
    "Correctable",
    "CrSpace",
    "LinkSpeed",
    "PciIdentity",
    "Uncorrectable",
]
