"""Function that manages an embedded switch, watched for attacks through it."""

from __future__ import annotations

from rig import MappedMemory

from attacks.watch import Watch, WatchedBar, WatchedLoop
from emu.device.adapter.adapter import Adapter
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.function.function import Function
from emu.device.models.model import Model
from emu.device.models.switching import with_switch
from emu.device.state.hca import HcaOptions
from emu.driver.command.driver import Driver
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.tap_wire import TapWire
from firmware_cmds import TABLE


class Manager:
    """Function, probed, with a send queue."""

    def __init__(self, watch: Watch, model: Model, log_size: int) -> None:
        self.wire, self.loop = TapWire(), WatchedLoop(watch)
        model = with_switch(model)
        adapter = Adapter(model, 1, EmbeddedSwitch(self.wire, arrive))
        memory = MappedMemory(16 << 20)
        self.function = Function(
            model, HcaOptions(guid=2), TABLE, memory, IrqList(), self.loop, None,
            vhca=adapter.manager,
        )  # fmt: skip
        watch.knows(self.function)
        bar = WatchedBar(watch.unwatched(), [self.function])
        self.node = Node(self.function, Driver(bar, memory, self.function.interrupts).probe())
        tisn = create_tis(self.node.driver, alloc_td(self.node.driver))
        self.sq = SendQueue(self.node, log_size=log_size, tisn=tisn)
