"""Two Ethernet functions on one segment, as captures see them."""

from __future__ import annotations

from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.state.hca import HcaOptions
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.caps import PortType

MACS = (0x02_11_22_33_44_55, 0x02_66_77_88_99_AA)
NAMES = ("function 0", "function 1")


def plugged_functions(clock, segments):
    """Return the functions, whose links are up, and their cables."""
    cables = [segments.plug(name, 0) for name in NAMES]
    functions = []
    for number, (mac, cable) in enumerate(zip(MACS, cables)):
        options = HcaOptions(guid=0x1000 + number, mac=mac)
        model = LINKS["connectx6dx"][PortType.ETH]
        function = Function(
            model, options, TABLE, Memory(), IrqList(), clock, LocalFabric(clock), eth_wire=cable
        )
        function.hca.eth.set_admin(up=True)
        functions.append(function)
    return functions, cables
