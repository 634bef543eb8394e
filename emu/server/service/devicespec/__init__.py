"""The syntax of a device on the command line: ``MODEL[,KEY=VALUE]...``.

Examples: ``connectx6``, ``connectx6-vf,lid=7``, ``connectx5,link=eth``. MODEL is a model of
``emu.device.models``; the settings are options of the function.

``link`` is ``ib`` or ``eth``. ``mac`` is the address of an Ethernet port; the default follows from
the GUID. ``segment`` is the number of the port's segment, as in ``--net``. ``pkeys`` are an
InfiniBand port's partitions besides the default one. With ``ib_virt=0`` the driver queries an
InfiniBand port by MAD_IFC, as with old firmware. With ``mw_2a=1`` type 2 memory windows are of type
2A instead of 2B. ``odp`` is 0 for no on-demand paging, 1 for the transport scheme, 2 for the memory
scheme as well; the default is the model's. With ``real_time=1`` time stamps have the time of day;
``pps=1`` gives the board pins for pulses. Both need Ethernet and ConnectX-6 Dx or later.

A physical function with an Ethernet port manages the adapter's embedded switch, except on
ConnectX-4 Lx and with ``switch=0``. With ``sfs=N`` it also has up to N sub-functions.

With ``vfs=N`` a physical function can enable up to N virtual functions by SR-IOV, which have its
``pages`` and ``pkeys``. With an Ethernet port it then has the switch.

With ``smfs=0`` only the firmware owns flow tables. The default also lets software own some, on
models whose real adapters permit it (ConnectX-6 Dx and later): drivers write the entries into the
adapter's memory.

Two functions with the same ``board=N`` are the ports of a board, in command-line order. With
``port_select=1`` on both, flow tables choose the ports of a bond that hashes, and the switches of
both can be one (multi-port E-Switch).

With ``crypto=plaintext`` or ``crypto=wrapped`` the function encrypts by AES-XTS, with keys in that
form. With ``bf=1`` the function accepts work requests that are copied behind their doorbells
(BlueFlame).
"""

from emu.server.service.devicespec.functions import parse_all
from emu.server.service.devicespec.settings import MAX_LID, SETTINGS, DeviceSpecError
from emu.server.service.devicespec.spec import DeviceSpec, parse

__all__ = ["MAX_LID", "SETTINGS", "DeviceSpec", "DeviceSpecError", "parse", "parse_all"]
