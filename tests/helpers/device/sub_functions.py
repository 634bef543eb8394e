"""A physical function with a driver that is told of its sub-functions."""

from __future__ import annotations

from types import SimpleNamespace

from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.sub_functions import FIRST_NUMBER, LOG_BYTES, with_sub_functions
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar, PartBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.frames import EthPacket
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.driver.world.tap_wire import TapWire
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.enums.hca import VhcaState
from layouts.rings.eqe import eqe_vhca_state

MOST = 64
MODEL = with_sub_functions(LINKS["connectx6dx"][PortType.ETH], MOST)
GUID = 0x0002_C903_00AD_0000
EVENTS = {
    "vhca_state": 1,
    **{
        f"event_on_vhca_state_{state}": 1
        for state in ("allocated", "active", "in_use", "teardown_request")
    },
}
NUMBER = FIRST_NUMBER + 3
FRAME = EthPacket(payload=b"from a sub-function").frame()


class Manager:
    """The physical function, with a driver that is told of its sub-functions."""

    def __init__(self, clock):
        self.clock = clock
        self.wire = TapWire()
        self.memory, self.irqs = Memory(), IrqList()
        options = HcaOptions(guid=GUID)
        self.function = Function(
            MODEL, options, TABLE, self.memory, self.irqs, clock, None, eth_wire=self.wire
        )
        self.probe()

    def probe(self):
        self.driver = Driver(FunctionBar(self.function), self.memory, self.irqs)
        self.driver.probe(**EVENTS)
        self.eqn = self.driver.create_eq(events=[EventType.VHCA_STATE_CHANGE])

    @property
    def hca(self):
        return self.function.hca

    def told(self):
        """The numbers that events have named since the last call."""
        entries = self.driver.eqs[self.eqn].drain()
        return [eqe_vhca_state.view(bytearray(entry.data)).function_id for entry in entries]

    def arm(self, number=NUMBER):
        self.modify(number, arm_change_event=1)

    def modify(self, number=NUMBER, **fields):
        return self.driver.must(
            Op.MODIFY_VHCA_STATE, function_id=number, vhca_state_context=fields,
            vhca_state_field_select=dict.fromkeys(fields, 1),
        )  # fmt: skip

    def state(self, number=NUMBER):
        answer = self.driver.must(Op.QUERY_VHCA_STATE, function_id=number)
        return VhcaState(answer.vhca_state_context.vhca_state)

    def active(self, number=NUMBER):
        """A sub-function whose driver may begin."""
        self.driver.must(Op.ALLOC_SF, function_id=number)
        self.driver.must(Op.ENABLE_HCA, function_id=number)
        return self

    def bar(self, number=NUMBER):
        return PartBar(self.function, number - FIRST_NUMBER << LOG_BYTES)

    def driver_of(self, number=NUMBER):
        """The sub-function's driver, after its probe."""
        driver = Driver(self.bar(number), self.memory, self.irqs)
        return driver.probe(is_vf=True)

    def node_of(self, number=NUMBER):
        driver = self.driver_of(number)
        hca = self.hca.adapter.by_vport(number).node
        return Node(SimpleNamespace(hca=hca, run=self.function.run), driver)
