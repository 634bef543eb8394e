"""The subnet's administrator, which lives in the fabric itself: no guest needs a subnet manager."""

from emu.net.ib.sa.administrator import SubnetAdministrator

__all__ = ["SubnetAdministrator"]
