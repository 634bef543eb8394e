"""Hostile managers of a simulated subnet: long paths, and packets on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attacks.watch import Watch, WatchedLoop, pattern
from emu.device.port.datagram import GSI_QKEY, Datagram, Destination, Origin
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import DEFAULT_PKEY
from emu.device.rounds.budget import POLL_BUDGET
from emu.server.net.ib.sa.administrator import SubnetAdministrator
from emu.server.net.ib.sa.group import GroupMember
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.topology import parse
from layouts.enums.vport import PortState
from layouts.wire.bth import MULTICAST_LID

WAYS = 4096
TABLE_CHANGES = 16
SWITCHES, CABLES = 30, 120
GROUPS = 64
PORTS = 1000
GUID = 0x77
_MULTICAST_QPN = 0xFFFFFF
_RING = """
Switch 4 "one"
[1] "two"[2]
[3] "function0"[1]
Switch 4 "two"
[1] "three"[2]
Switch 4 "three"
[1] "one"[2]
Hca 1 "function0"
"""


class _Subnet:
    """Subnet whose ports are all active, and a function that sends in it."""

    def __init__(self, watch: Watch, text: str) -> None:
        self.watch, self.loop = watch, WatchedLoop(watch)
        self.fabric = SubnetFabric(self.loop, parse(text), [GUID])
        self.plug = self.fabric.plugs[GUID]
        self.switches = [node.tables for node in self.fabric.cables.nodes if node.tables]
        for node in self.fabric.cables.nodes:
            for port in node.ports:
                port.info.port_state = PortState.ACTIVE

    def send(self, lids: list[int], qpn: int = 1) -> None:
        """Send a datagram to each of these LIDs, up to the limit of each round."""
        left = lids[::-1]
        while left:
            self.loop.budget.begin()
            self.watch.round(lambda: self._send_some(left, qpn))

    def _send_some(self, left: list[int], qpn: int) -> None:
        while left and not self.loop.budget.exhausted(POLL_BUDGET):
            to = Destination(qpn, GSI_QKEY, left.pop(), sl=0, path_bits=0)
            packet = Datagram(to, [memoryview(bytes(64))], 64, None, False)
            self.fabric.carry(self.plug, packet, Origin(1, 1, DEFAULT_PKEY, GSI_QKEY, bytes(16)))

    def change(self) -> None:
        """Change a table, a link or a port's state."""
        self.fabric.cables.generation += 1

    def check(self, least: int) -> None:
        """Raise RuntimeError unless ``least`` packets have left ports."""
        self.watch.round(self.fabric.routes.settle)
        left = sum(counts["port_xmit_packets"] for counts in self.fabric.routes.counts.values())
        if left < least:
            raise RuntimeError(f"{left} packets have left ports, not {least}")


@pattern(f"{WAYS} ways of 64 links through a subnet, whose tables change in between")
def circles(watch: Watch) -> Iterator[None]:
    subnet = _Subnet(watch, _RING)
    for tables in subnet.switches:
        tables.info.linear_fdb_top = 0xBFFF
        tables.linear = bytearray(b"\x01") * 0xC000
    yield
    lids = [*range(16, 16 + WAYS)]
    for _ in range(TABLE_CHANGES):
        subnet.send(lids)
        subnet.change()
    subnet.check(TABLE_CHANGES * WAYS * 64)


@pattern(f"multicast through {SWITCHES} switches with {CABLES} cables between each two")
def parallel(watch: Watch) -> Iterator[None]:
    lines: list[str] = []
    for number in range(SWITCHES):
        lines.append(f'Switch 254 "s{number}"')
        if not number:
            lines.append('[254] "function0"[1]')
        if number + 1 < SWITCHES:
            ports = range(1, CABLES + 1)
            lines += [f'[{port}] "s{number + 1}"[{port + CABLES}]' for port in ports]
    subnet = _Subnet(watch, "\n".join([*lines, 'Hca 1 "function0"']))
    for tables in subnet.switches:
        tables.multicast = dict.fromkeys(range(GROUPS), (1 << 255) - 2)
    yield
    lids = [*range(MULTICAST_LID, MULTICAST_LID + GROUPS)]
    for _ in range(2):
        subnet.send(lids, _MULTICAST_QPN)
        subnet.change()
    subnet.check(2 * GROUPS * 4096)


@pattern(f"{PORTS} ports that leave {PORTS} multicast groups at once")
def leaving(watch: Watch) -> Iterator[None]:
    loop = WatchedLoop(watch)
    ports = [
        EndPort(
            lid=lid, port_guid=lid, node_guid=lid, pkeys=(DEFAULT_PKEY,), node_description=bytes(64)
        )
        for lid in range(1, PORTS + 1)
    ]
    administrator = SubnetAdministrator(lambda: ports, lambda *_: None, loop)
    administrator.sweep()
    groups = administrator.groups._groups
    (own,) = groups.values()
    for number in range(PORTS):
        members = {port.gid: GroupMember(1, 0) for port in ports}
        mgid = own.mgid[:-2] + number.to_bytes(2, "big")
        groups[mgid] = replace(own, mgid=mgid, mlid=number, is_permanent=False, members=members)
    yield
    ports.clear()
    watch.round(administrator.sweep)
    loop.run()
    if len(groups) > 1:
        raise RuntimeError(f"{len(groups)} groups are left")
