"""A physical function and the virtual functions that its SR-IOV capability enables."""

from __future__ import annotations

from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.virtual_functions import virtual_function_of, with_virtual_functions
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op

GUID = 0x0002_C903_00BD_0000
SRIOV = 0x180
CONTROL, NUM_VFS, VF_BAR = SRIOV + 0x08, SRIOV + 0x10, SRIOV + 0x24
VF_ENABLE, VF_MEMORY = 1, 8
DEVICE_CONTROL, INITIATE_FLR = 0x60 + 8, 0x8000


class Served:
    """A function and its own memory and interrupts."""

    def __init__(self, model, number, clock, pf=None, wire=None):
        self.memory, self.irqs = Memory(), IrqList()
        options = HcaOptions(guid=GUID + number, lid=number + 1)
        wire = None if model.port_type is PortType.ETH else wire or NoWire()
        self.function = Function(
            model, options, TABLE, self.memory, self.irqs, clock, wire, pf=pf
        )  # fmt: skip

    def get(self, offset, length):
        return int.from_bytes(self.function.config_read(offset, length), "little")

    def put(self, offset, length, value):
        self.function.config_write(offset, value.to_bytes(length, "little"))

    def flr(self):
        self.put(DEVICE_CONTROL, 2, INITIATE_FLR)

    def probe(self):
        """Its driver, after a probe."""
        driver = Driver(FunctionBar(self.function), self.memory, self.irqs)
        return driver.probe(is_vf=self.function.model.identity.is_vf)


class Sriov:
    """The physical function with all of its virtual functions, none of which is enabled."""

    def __init__(self, clock, total=3, name="connectx6dx", link=PortType.ETH, wire=None):
        model = with_virtual_functions(LINKS[name][link], total)
        self.pf = Served(model, 0, clock, wire=wire)
        self.vfs = [
            Served(virtual_function_of(model), number, clock, self.pf.function, wire)
            for number in range(1, total + 1)
        ]

    def enable(self, number):
        """As Linux does (drivers/pci/iov.c: sriov_enable)."""
        self.pf.put(NUM_VFS, 2, number)
        self.pf.put(CONTROL, 2, VF_ENABLE | VF_MEMORY)

    def disable(self):
        self.pf.put(CONTROL, 2, 0)
        self.pf.put(NUM_VFS, 2, 0)

    def probed(self, number):
        """The PF's driver, and those of the first VFs, which it has enabled."""
        driver = self.pf.probe()
        self.enable(number)
        for function_id in range(1, number + 1):
            driver.must(Op.ENABLE_HCA, function_id=function_id)
        return driver, [vf.probe() for vf in self.vfs[:number]]

    def on_bus(self):
        """Which VFs are enabled."""
        return [vf.function.vhca.vf_enabled for vf in self.vfs]
