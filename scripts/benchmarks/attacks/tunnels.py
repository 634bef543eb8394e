"""Hostile use of an embedded switch: large sends into the maximum number of tunnels."""

from __future__ import annotations

from collections.abc import Iterator

from attacks.eth import post_large
from attacks.switches import Manager
from attacks.watch import Watch, pattern
from emu.device.models import LINKS
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.driver.ethernet.flow_fields import reformat_fields, to_vport, with_reformat
from emu.driver.ethernet.flows import Flows
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.packet_reformat import ReformatType

UPLINK = 0xFFFF
LARGE_BYTES = 60000
SENDS = 16
VXLAN = bytes.fromhex(
    "020000000001 020000000002 0800"
    "4500 0000 0000 0000 4011 0000 0a000001 0a000002"
    "0000 12b5 0000 0000"
    "08000000 00424200"
)


class Tunneling(Manager):
    """Manager that forwards all packets into tunnels, to the cable."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch, LINKS["connectx6"][PortType.ETH], 10)
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
    manager = Tunneling(watch)
    mss = -(-LARGE_BYTES // packets)
    post_large(manager.sq, SENDS, manager.node.region(LARGE_BYTES).sge(), mss=mss)
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
