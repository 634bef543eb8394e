"""Ethernet functions with RoCE: their addresses, and the paths between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from emu.device.function.function import Function
from emu.device.models import MODELS, Model
from emu.device.port.eth.roce.framing import MAPPED_PREFIX
from emu.device.port.eth.wire import EthWire
from emu.device.state.hca import Hca, HcaOptions
from emu.driver.command.answer import Answer
from emu.driver.command.driver import Driver, Fields
from emu.driver.nodes.cable import Cable, DueTimers
from emu.driver.nodes.two_nodes import GUID, brought_up
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.node import Node
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.roce import RoceL3Type, RoceVersion

MODEL = MODELS["connectx6dx"]
PORT_MTU = 9000
HOP_LIMIT = 64
SPORT = 0xC123


def ipv4(last: int) -> bytes:
    """Return the GID of 10.0.0.``last``."""
    return MAPPED_PREFIX + bytes((10, 0, 0, last))


def ipv6(last: int) -> bytes:
    """Return a link-local address as a GID."""
    return bytes.fromhex("fe80") + bytes(13) + bytes((last,))


V1, V2 = RoceVersion.VERSION_1, RoceVersion.VERSION_2


def set_address(
    driver: Driver, index: int, gid: bytes, mac: bytes = bytes(6), vlan: int | None = None,
    version: RoceVersion = V2, **fields: object,
) -> Answer:  # fmt: skip
    """Send SET_ROCE_ADDRESS like mlx5_core_roce_gid_set; return the answer, with any status.

    ``vlan`` None means untagged. ``fields`` override fields of roce_address. The L3 type follows
    from ``gid``; version 1 has that of IPv4.
    """
    number = int.from_bytes(mac, "big")
    is_ipv4 = gid.startswith(MAPPED_PREFIX)
    address: Fields = {
        "source_l3_address": gid, "vlan_valid": int(vlan is not None), "vlan_id": vlan or 0,
        "source_mac_47_32": number >> 32, "source_mac_31_0": number & 0xFFFFFFFF,
        "roce_l3_type": RoceL3Type.IPV4 if is_ipv4 or version is V1 else RoceL3Type.IPV6,
        "roce_version": version,
    } | fields  # fmt: skip
    return driver.command(Op.SET_ROCE_ADDRESS, roce_address_index=index, roce_address=address)


def clear_address(driver: Driver, index: int) -> Answer:
    """Clear an entry, with the driver's zero version and type."""
    return set_address(driver, index, bytes(16))


class RoceNode(Node):
    """Function with RoCE on, whose GIDs are an IPv6, an IPv4 and a VLAN's IPv4 address.

    The table has each for version 2 and, behind these three, for version 1.
    """

    VLAN = 100

    def __init__(self, function: Function, driver: Driver, index: int = 1) -> None:
        """Enable RoCE; ``index`` is the GID of both ends of paths: 0 to 2, 3 to 5 for version 1."""
        super().__init__(function, driver)
        self.index = index
        self.mac = self.hca.nic_vport.permanent_address
        number = self.hca.options.guid & 0xFF
        self.gids = [ipv6(number), ipv4(number), ipv4(100 + number)] * 2
        driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"roce_en": 1},
            nic_vport_context={"roce_en": 1},
        )  # fmt: skip
        for at, gid in enumerate(self.gids):
            vlan = self.VLAN if at % 3 == 2 else None
            version = V1 if at >= 3 else V2
            assert not set_address(driver, at, gid, self.mac, vlan, version).status
        self.hca.eth.admin_mtu = PORT_MTU

    def path_to(self, peer: Endpoint) -> Fields:
        """Return the address path to a peer, as fields of ads.

        AssertionError unless it is a RoceNode.
        """
        peer = _with_roce(peer)
        return self.path_to_address(peer.mac, peer.gids[peer.index])

    def path_to_address(self, mac: bytes, gid: bytes) -> Fields:
        """Return the address path to this MAC address and GID, as fields of ads.

        The source is this node's GID ``index``.
        """
        return {
            "src_addr_index": self.index, "rgid_rip": gid,
            "rmac_47_32": int.from_bytes(mac[:2], "big"),
            "rmac_31_0": int.from_bytes(mac[2:], "big"),
            "hop_limit": HOP_LIMIT, "udp_sport": SPORT, "tclass": 2, "eth_prio": 3,
        }  # fmt: skip

    def vector_to(self, peer: Endpoint) -> Fields:
        """Return the path to a peer as fields of an address vector (AV) of a UD send.

        Raises AssertionError unless the peer is a RoceNode.
        """
        peer = _with_roce(peer)
        return {
            "rmac": peer.mac, "rgid": peer.gids[peer.index], "rlid": SPORT, "hop_limit": HOP_LIMIT,
            "grh_gid_fl": 1 << 30 | self.index << 20, "tclass": 2, "stat_rate_sl": 3 << 1,
        }  # fmt: skip


def _with_roce(peer: Endpoint) -> RoceNode:
    assert isinstance(peer, RoceNode)
    return peer


def functions_on(
    wires: Iterable[EthWire[Hca] | None], clock: HandClock, model: Model = MODEL,
    make_memory: Callable[[], Memory] = Memory,
) -> list[Function]:  # fmt: skip
    """Return a new function at each of the wires, in order; None is a function without a wire.

    Each has its own memory and interrupts, and no driver.
    """
    functions = []
    for number, wire in enumerate(wires, 1):
        options = HcaOptions(guid=GUID + number)
        memory = make_memory()
        functions.append(
            Function(model, options, TABLE, memory, IrqList(), clock, None, eth_wire=wire)
        )
    return functions


def on_one_segment(clock: HandClock, count: int = 2) -> list[RoceNode]:
    """Return ``count`` nodes of one process on one segment, with loaded drivers and RoCE enabled.

    The clock's due timers run whenever a function runs.
    """
    switch = SegmentSwitch(clock)
    ports = [FunctionPort(f"function {number}", switch) for number in range(count)]
    return brought_up(RoceNode, functions_on(ports, clock), DueTimers(clock))


def on_a_cable(
    clock: HandClock, model: Model = MODEL, *, takes_trains: bool = False
) -> list[RoceNode]:
    """Return two nodes with RoCE enabled that reach each other by frames only.

    Frames may be trains of packets with ``takes_trains``. Cable and due timers run whenever a
    function runs.
    """
    cable = Cable()
    wires = [cable, cable.other()]
    for wire in wires:
        wire.takes_trains = takes_trains
    functions = functions_on(wires, clock, model)
    return brought_up(RoceNode, functions, *wires[:1], DueTimers(clock))
