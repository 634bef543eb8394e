"""Hostile use of an embedded switch: large sends into as many tunnels as an entry may name."""

from __future__ import annotations

from collections.abc import Iterator

from rig import MappedMemory

from attacks.watch import Watch, WatchedBar, WatchedLoop, pattern
from emu.device.adapter.adapter import Adapter
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.device.state.hca import HcaOptions
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import reformat_fields, to_vport, with_reformat
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import Packet
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.node import Node
from emu.driver.world.interrupts import IrqList
from emu.driver.world.tap_wire import TapWire
from firmware_cmds import TABLE
from layouts.enums import Op, Opcode, PortType
from layouts.eth_enums import FlowTableType, ReformatType

UPLINK = 0xFFFF
LARGE_BYTES = 60000
SENDS = 16
VXLAN = bytes.fromhex(
    "020000000001 020000000002 0800"
    "4500 0000 0000 0000 4011 0000 0a000001 0a000002"
    "0000 12b5 0000 0000"
    "08000000 00424200"
)


class Manager:
    """The function that manages a switch; it leads everything into tunnels, to the cable."""

    def __init__(self, watch: Watch) -> None:
        self.wire, self.loop = TapWire(), WatchedLoop(watch)
        model = with_switch(LINKS["connectx6"][PortType.ETH])
        adapter = Adapter(model, 1, EmbeddedSwitch(self.wire, arrive))
        memory = MappedMemory(16 << 20)
        self.function = Function(
            model, HcaOptions(guid=2), TABLE, memory, IrqList(), self.loop, None,
            vhca=adapter.manager,
        )  # fmt: skip
        watch.knows(self.function)
        bar = WatchedBar(watch.unwatched(), [self.function])
        self.node = Node(self.function, Driver(bar, memory, self.function.interrupts).probe())
        driver = self.node.driver
        self.sq = SendQueue(self.node, log_size=10, tisn=create_tis(driver, alloc_td(driver)))
        self.tunnels = 1 << self.function.hca.caps.eswitch.log_max_fdb_encap_uplink
        self._lead()

    def _lead(self) -> None:
        fdb, driver = Flows(self.node.driver, FlowTableType.FDB), self.node.driver
        table = fdb.table(0, reformat_en=1)
        fdb.set_root(table)
        given = reformat_fields(ReformatType.L2_TO_VXLAN, VXLAN)
        made = [
            driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **given).packet_reformat_id
            for _ in range(self.tunnels)
        ]
        ways = [with_reformat(to_vport(UPLINK), number) for number in made]
        long = {"extended_destination": 1}
        fdb.entry(table, 0, fdb.group(table, 0, 0), *ways, beside=long)


def _into_tunnels(watch: Watch, packets: int) -> Iterator[None]:
    manager = Manager(watch)
    payload = manager.node.region(LARGE_BYTES)
    header = Packet(payload=b"").frame()
    for _ in range(SENDS):
        manager.sq.send(
            payload.sge(), opcode=Opcode.LSO, mss=-(-LARGE_BYTES // packets), headers=header,
            ring=False, flags=0,
        )  # fmt: skip
    yield
    manager.sq.ring_doorbell()
    manager.loop.run()
    found = len(manager.wire.sent())
    if found < SENDS * packets // 2:
        raise RuntimeError(f"only {found} frames have left")


@pattern("large sends of 64 packets each, into 32 tunnels")
def few_packets(watch: Watch) -> Iterator[None]:
    yield from _into_tunnels(watch, 64)


@pattern(f"large sends of {MAX_SEGMENTS} packets each, into 32 tunnels")
def many_packets(watch: Watch) -> Iterator[None]:
    yield from _into_tunnels(watch, MAX_SEGMENTS)
