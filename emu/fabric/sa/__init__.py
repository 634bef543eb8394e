"""The subnet's administrator, which lives in the fabric itself: no guest needs a subnet manager."""

from emu.fabric.sa.administrator import SubnetAdministrator

__all__ = ["SubnetAdministrator"]
