"""The subnet administrator, a part of the fabric itself: no guest has to run a subnet manager."""

from emu.server.net.ib.sa.administrator import SubnetAdministrator

__all__ = ["SubnetAdministrator"]
