"""The adapters that can be emulated: identity, firmware, link and capabilities of each.

A model defines the device's identity and capabilities; a capability bit is set only if the emulator
implements it. Device ids are those of core/main.c: mlx5_core_pci_table, capability names those of
mlx5_ifc.h. PCI ids and generations are real; serial numbers, board ids and firmware builds are not.
"""

from emu.device.models.adapters import DEFAULT_MODEL, LINKS, MODELS
from emu.device.models.model import Capabilities, Model

__all__ = ["DEFAULT_MODEL", "LINKS", "MODELS", "Capabilities", "Model"]
