"""The subnet administrator inside the fabric; no guest needs to run a subnet manager."""

from emu.server.net.ib.sa.administrator import SubnetAdministrator

__all__ = ["SubnetAdministrator"]
