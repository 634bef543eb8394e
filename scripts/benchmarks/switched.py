"""Cost of a packet through an embedded switch whose tables the driver has written itself.

The packet arrives by the cable and passes three tables of steering entries, of which the second is
hashed. The manager's queues receive it like a representor's packets: by the register that the
tables have set. Prints a table, or JSON with --json.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import click
from engine import sample
from ethernet import BATCH, BOTH, Netdev, packet
from figures import Goal, Row, Section
from tables import json_option, show

from emu.device.adapter.adapter import Adapter
from emu.device.engine.esw.switch import EmbeddedSwitch
from emu.device.engine.eth.receive import arrive
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.models.switching import with_switch
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import HEADER_MODIFY, STE_BYTES, SwIcm
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import match_misc, to_table, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, TCP
from emu.driver.ethernet.steering_entries import SoftwareTables, always_miss, entry, index_of
from emu.driver.world.clock import HandClock
from emu.driver.world.tap_wire import TapWire
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

MAX_US = 25.0
MAX_RULES_RATIO = 1.1
MAX_CROSSING_RATIO = 1.2
RULES = 10_000
FLOWS = 16
LOG_ICM, LOG_TABLE = 24, 16
L2_SOURCE, IPV4 = 0x0005, 0x0007
FDB = FlowTableType.FDB
MARK = 0x1234_0000
BYTES_HASHED = 0xFFF1
_MISC, _MISC_2 = 2, 8
_MASK = b"\xff" * 12 + b"\0\0\0\xff"


class Representor(Netdev):
    """Manager of a switch, whose queues receive the packets that the tables forward to it."""

    def __init__(self, rules: int) -> None:
        model = with_switch(with_software_steering(LINKS["connectx6dx"][PortType.ETH]))
        self.switch: EmbeddedSwitch = EmbeddedSwitch(TapWire(), arrive)
        super().__init__(adapter=Adapter(model, 1, self.switch))
        self.tables = SoftwareTables(self.node, LOG_ICM)
        self.flows = [packet(1514, number) for number in range(FLOWS)]
        self._fill(rules)
        keep_source(self.node.driver)

    def steer(self, flows: Flows) -> int:
        """Create the tables before the representors' (core/en_rep.c, core/eswitch_offloads.c)."""
        root = super().steer(flows)
        front = flows.table(0, log_size=2)
        criteria = match_misc({0: 0xFFFF_0000})
        group = flows.group(front, 0, 0, enable=_MISC_2, match_criteria=criteria)
        flows.entry(front, 0, group, to_table(root), value=match_misc({0: MARK}))
        return front

    def _tag(self, number: int) -> bytes:
        if number < FLOWS:
            headers = parse(self.flows[number])
            return headers.addresses + headers.ports + b"\0\0\0" + bytes((TCP,))
        return number.to_bytes(12, "big") + b"\0\0\0" + bytes((TCP,))

    def _fill(self, rules: int) -> None:
        """Write rules of five fields each into the second table, those of the flows among them."""
        tables = self.tables
        drop = icm_address(IcmKind.FDB_RX_DROP)
        context = self.node.driver.must(Op.QUERY_ESW_VPORT_CONTEXT).esw_vport_context
        own = context.sw_steering_vport_icm_address_rx
        mark = b"\x06\x90\x20\x20" + MARK.to_bytes(4, "big")
        tables.write(HEADER_MODIFY.start, mark, HEADER_MODIFY)
        last = tables.place(entry(hit=own, action=b"\x0f\x01\x00\x00"))
        size = 1 << LOG_TABLE
        slots: dict[int, bytes] = {}
        number = 0
        while len(slots) < max(rules, FLOWS):
            tag = self._tag(number)
            at = index_of(tag, BYTES_HASHED, size)
            if at not in slots:
                slots[at] = entry(IPV4, mask=_MASK, tag=tag, miss=drop, hit=last)
            elif number < FLOWS:
                raise RuntimeError("two flows have one index")
            number += 1
        empty = always_miss(drop)
        table = tables.place(*(slots.get(at, empty) for at in range(size)), size=size)
        mask = bytes(4) + b"\xff" * 6
        first = entry(
            L2_SOURCE, mask=mask, tag=bytes(4) + MACS[6:], miss=drop, hit=table, size=size,
            next_lookup=IPV4, byte_mask=BYTES_HASHED,
        )  # fmt: skip
        root = tables.table(tables.place(first), FDB, tables.place(entry(hit=drop)))
        Flows(self.node.driver, FDB).set_root(root)


def keep_source(driver: Driver) -> None:
    """Let packets to the manager keep the register that tells it their representor."""
    driver.must(
        Op.MODIFY_ESW_VPORT_CONTEXT, field_select={"fdb_to_vport_reg_c_id": 1},
        esw_vport_context={"fdb_to_vport_reg_c_id": 1},
    )  # fmt: skip


def passing(representor: Representor, anew: bool) -> Callable[[], float]:
    """Return the microseconds of each packet; with ``anew`` an entry is written before each."""
    icm = representor.hca.icm
    assert icm is not None
    (entries, *_) = representor.hca.objects[SwIcm]
    frames = [Frame(representor.flows[number % FLOWS], 0, True) for number in range(BATCH)]

    def take() -> float:
        for frame in frames[:FLOWS]:
            representor.switch.receive(frame)
        representor.node.settle()
        start = time.perf_counter_ns()
        for frame in frames:
            if anew:
                icm.hold(entries, entries.start + entries.length - STE_BYTES, STE_BYTES)
            representor.switch.receive(frame)
        elapsed = time.perf_counter_ns() - start
        representor.node.settle()  # the round ends
        representor.expect(FLOWS + BATCH)
        return elapsed / 1000 / BATCH

    return take


def on_a_segment() -> tuple[Netdev, Netdev]:
    """Return two functions of one segment."""
    segment = SegmentSwitch(HandClock())
    one, two = (
        Netdev(eth_wire=FunctionPort(f"function {number}", segment), guid=1 + 16 * number)
        for number in range(2)
    )
    return one, two


def behind_rules(*rules: tuple[int, int]) -> tuple[Netdev, Netdev, Netdev]:
    """Return a manager and two virtual functions; each rule leads from a vPort to another."""
    model = with_switch(LINKS["connectx6"][PortType.ETH])
    adapter = Adapter(model, 1, EmbeddedSwitch(TapWire(), arrive))
    manager = Netdev(adapter=adapter)
    driver = manager.node.driver
    keep_source(driver)
    one, two = (Netdev(vf=(driver, adapter.add(number)), guid=1 + 16 * number) for number in (1, 2))
    fdb = Flows(driver, FDB)
    root = fdb.table(0)
    group = fdb.group(root, 0, 3, enable=_MISC, match_criteria=match_misc(source_port=0xFFFF))
    for source, target in rules:
        value = match_misc(source_port=source)
        fdb.entry(root, source, group, to_vport(target), value=value)
    fdb.set_root(root)
    return manager, one, two


def moving(pair: tuple[Netdev, Netdev], size: int) -> Callable[[], float]:
    """Return the microseconds of each frame that the first function sends to the second one."""
    one, two = pair
    sges = one.put(packet(size))

    def take() -> float:
        for _ in range(BATCH):
            one.sq.send(*sges, cs_flags=BOTH, ring=False, flags=0)
        one.sq.nop(ring=False)
        start = time.perf_counter_ns()
        one.sq.ring_doorbell()
        for _ in range(2):
            one.node.settle()
            two.node.settle()
        elapsed = time.perf_counter_ns() - start
        one.sq.cq.drain()
        two.expect(BATCH)
        return elapsed / 1000 / BATCH

    return take


def crossings(count: int) -> list[Row]:
    """Return the ways of a virtual function's frames beside that between two functions."""
    _, one, two = behind_rules((1, 2))
    manager, vf, _ = behind_rules((0, 1), (1, 0))
    ways = {
        "to another by a rule": (one, two),
        "to its representor": (vf, manager),
        "from its representor": (manager, vf),
    }
    pairs, sizes = [on_a_segment(), *ways.values()], (60, 1514)
    found = sample(count, *(moving(pair, size) for size in sizes for pair in pairs))
    return [
        Row(
            f"a virtual function's frame {way}, {size} B; beside it two functions", "us",
            found[at * len(pairs) + number], found[at * len(pairs)],
            Goal(MAX_CROSSING_RATIO, of_ratio=True),
        )
        for at, size in enumerate(sizes)
        for number, way in enumerate(ways, 1)
    ]  # fmt: skip


def rows(count: int) -> list[Row]:
    """Return rows with few rules and with many, and the first packet after a change."""
    few, many = Representor(FLOWS), Representor(RULES)
    taken: Sequence[list[float]] = sample(
        count, passing(few, False), passing(many, False), passing(many, True)
    )
    name = "to a representor, 1514 B"
    return [
        Row(f"{name}, {FLOWS} rules", "us", taken[0], goal=Goal(MAX_US)),
        Row(
            f"{name}, {RULES:,} rules; beside it {FLOWS}", "us", taken[1], taken[0],
            Goal(MAX_RULES_RATIO, of_ratio=True),
        ),
        Row(f"{name}, after an entry was written", "us", taken[2]),
        *crossings(count),
    ]  # fmt: skip


@click.command()
@click.option("--count", default=50, show_default=True, help="Samples of each.")
@json_option
def main(count: int, as_json: bool) -> None:
    """Measure what a packet costs in an embedded switch."""
    logging.disable()
    show(
        [
            Section(
                "switched", "Embedded switch, three tables of software, in one process", rows(count)
            )
        ],
        as_json=as_json,
    )


if __name__ == "__main__":
    main()
