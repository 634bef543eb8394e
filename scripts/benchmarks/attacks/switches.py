"""Function that manages an embedded switch, watched for attacks through it."""

from __future__ import annotations

from attacks.watch import Watch, WatchedLoop, probed
from emu.device.adapter.adapter import Adapter
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.models.model import Model
from emu.device.models.switching import with_switch
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.tap_wire import TapWire


class Manager:
    """Function, probed, with a send queue."""

    def __init__(self, watch: Watch, model: Model, log_size: int) -> None:
        self.wire, self.loop = TapWire(), WatchedLoop(watch)
        model = with_switch(model)
        adapter = Adapter(model, 1, EmbeddedSwitch(self.wire, arrive))
        self.node = Node(*probed(watch, model, 2, self.loop, ram=16 << 20, vhca=adapter.manager))
        self.function = self.node.function
        tisn = create_tis(self.node.driver, alloc_td(self.node.driver))
        self.sq = SendQueue(self.node, log_size=log_size, tisn=tisn)
