"""An adapter with two functions, each with a driver of its own."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from emu.device.adapter.adapter import Adapter
from emu.device.adapter.switch import PlainSwitch
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.device.models.virtual_functions import virtual_function_of
from emu.device.port.eth.no_wire import NoWire
from emu.device.port.eth.vport import mac_of
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.enums.vport import HcaVportField, VportPolicy

GUID = 0x0002_C903_00AD_0000
PF = LINKS["connectx6"][PortType.ETH]


SWITCHING = with_switch(PF)


def made(wire):
    """An adapter whose port is plugged into a wire."""
    return Adapter(PF, GUID, PlainSwitch(wire, arrive))


def made_with_switch(wire, model=SWITCHING):
    """An adapter with an embedded switch between its vPorts and the wire."""
    return Adapter(model, GUID, EmbeddedSwitch(wire, arrive))


MANAGERS = WeakKeyDictionary()
"""The driver of each adapter's manager, which has probed first."""


def made_infiniband():
    """An adapter with an InfiniBand port."""
    model = LINKS["connectx6"][PortType.IB]
    model = replace(model, general={**model.general, "vport_group_manager": 1})
    return Adapter(model, GUID, PlainSwitch(NoWire(), arrive))


def set_policy(driver, function_id, policy=VportPolicy.FOLLOW):
    """Set the policy of a virtual function's InfiniBand link, as ``ip link set ib0 vf N state``."""
    context = {"field_select": HcaVportField.STATE_POLICY, "vport_state_policy": policy}
    driver.must(
        Op.MODIFY_HCA_VPORT_CONTEXT, other_vport=1, port_num=1, vport_number=function_id,
        hca_vport_context=context,
    )  # fmt: skip


class Member:
    """A function of the adapter, and its driver after a probe; the manager has enabled it."""

    def __init__(self, vhca, clock, wire=None, boot_pages=0):
        self.memory, irqs = Memory(), IrqList()
        guid = GUID + vhca.number + 1
        mac = int.from_bytes(mac_of(guid), "big")
        options = HcaOptions(guid=guid, mac=mac, lid=vhca.number + 1, boot_pages=boot_pages)
        model = vhca.adapter.model
        self.function = Function(
            model if vhca.is_manager else virtual_function_of(model), options, TABLE,
            self.memory, irqs, clock, wire, vhca=vhca,
        )  # fmt: skip
        self.driver = Driver(FunctionBar(self.function), self.memory, irqs)
        if vhca.is_manager:
            MANAGERS[vhca.adapter] = self.driver
        elif vhca.adapter in MANAGERS:
            MANAGERS[vhca.adapter].must(Op.ENABLE_HCA, function_id=vhca.vport_number)
        if not boot_pages:
            self.probe()

    def probe(self):
        """Start the function's driver; a function with ``boot_pages`` waits for them first."""
        self.driver.probe(is_vf=not self.hca.vhca.is_manager)
        self.node = Node(self.function, self.driver)
        self.eqn = self.driver.create_eq(events=[EventType.PORT_CHANGE])

    @property
    def hca(self):
        """The function's state since the last reset."""
        return self.function.hca

    def port_events(self):
        """What the driver has been told of the port since it last asked."""
        return [entry.sub_type for entry in self.driver.eqs[self.eqn].drain()]
