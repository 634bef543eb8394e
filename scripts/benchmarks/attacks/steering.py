"""Hostile flow tables of firmware: many comparisons, changes and samplers on a packet's path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from attacks.eth import MASKS, post_large
from attacks.rounds import roce_nodes
from attacks.switches import Manager
from attacks.watch import Watch, WatchedLoop, pattern
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.port.eth.segment import MAX_SEGMENTS
from emu.driver.ethernet.flow_fields import (
    OUTER,
    add_to_field,
    entry_fields,
    match,
    match_misc,
    reformat_fields,
    to_table,
    to_vport,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.verbs.channels import Channel
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction, FlowDestination, FlowSource
from layouts.enums.general_object import GeneralObject
from layouts.enums.modify_header import ModifyField
from layouts.enums.packet_reformat import ReformatType
from layouts.enums.qp import QpType
from layouts.steering.flow_match import fte_match_param
from layouts.steering.fte import dest_format_struct
from layouts.steering.sampler import sampler_obj

FDB, NIC_TX = FlowTableType.FDB, FlowTableType.NIC_TX
UPLINK = 0xFFFF
LARGE_BYTES = 50000
SENDS = 2
CHANGES = 32
"""Number of changes of one modify header context."""
GROUPS = 1900
"""Number of groups of 17 fields each: the maximum that a packet is compared with."""
CONTEXTS = 2000
FLOWS = 500
MISC = 2
_GRE = bytes.fromhex(
    "020000000001 020000000002 0800 4500 0000 0000 0000 402f 0000 0a000001 0a000002 0000 0800"
)
_VXLAN = bytes.fromhex(
    "020000000001 020000000002 0800 4500 0000 0000 0000 4011 0000 0a000001 0a000002"
    "0000 12b5 0000 0000 08000000 00424200"
)


class Fdb(Manager):
    """Switch whose manager configures much work for the packets that it sends."""

    def __init__(self, watch: Watch, table_type: FlowTableType = FDB) -> None:
        model = with_software_steering(LINKS["connectx6dx"][PortType.ETH])
        super().__init__(watch, model, 12)
        self.watch = watch
        self.driver = self.node.driver
        self.flows = Flows(self.driver, table_type)
        self.type = table_type

    def set(self, table: int, index: int, group: int, *to: bytes, **options: Any) -> None:
        """Set an entry that may forward to a table of any level."""
        fields = entry_fields(table, index, group, *to, **options)
        self.driver.must(
            Op.SET_FLOW_TABLE_ENTRY, table_type=self.type, ignore_flow_level=1, **fields
        )

    def chain(self, count: int, *last: bytes, **options: Any) -> int:
        """Create tables of which each changes a packet.

        The last one has an entry with ``options``.
        """
        actions = [add_to_field(ModifyField.OUT_IP_TTL, 1)] * CHANGES
        context = self.flows.context(*actions)
        tables = [
            self.flows.table(number, log_size=0, reformat_en=1) for number in range(count + 1)
        ]
        for table, following in pairwise(tables):
            group = self.flows.group(table, 0, 0)
            self.set(table, 0, group, to_table(following), modify=context)
        self.set(tables[-1], 0, self.flows.group(tables[-1], 0, 0), *last, **options)
        return tables[0]

    def tunnel(self, kind: ReformatType, data: bytes, **options: Any) -> int:
        """Create a packet reformat context."""
        fields = reformat_fields(kind, data, **options)
        return int(self.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **fields).packet_reformat_id)

    def sampled(self, ratios: Sequence[int], *to: bytes) -> int:
        """Create a table that forwards to samplers in sequence, and then to its destination."""
        default = self.flows.table(60, log_size=0)
        self.set(default, 0, self.flows.group(default, 0, 0), *to)
        nobody = self.flows.table(61, log_size=0)
        for ratio in reversed(ratios):
            given = sampler_obj.new(
                table_type=self.type, sample_ratio=ratio, sample_table_id=nobody, level=62,
                default_table_id=default, ignore_flow_level=1,
            )  # fmt: skip
            number = self.driver.must(
                Op.CREATE_GENERAL_OBJECT, op_mod=GeneralObject.SAMPLER, extra=bytes(given)
            ).obj_id
            kind = FlowDestination.FLOW_SAMPLER
            way = dest_format_struct.new(destination_type=kind, destination_id=number)
            default = self.flows.table(10, log_size=0)
            self.set(default, 0, self.flows.group(default, 0, 0), bytes(way))
        return default

    def compare(self, to: int) -> int:
        """Create a table with many groups without the packet's entry, before another table."""
        masks = dict(list(MASKS.items())[:17])
        table = self.flows.table(1, log_size=11)
        for index in range(GROUPS):
            group = self.flows.group(table, index, index, **masks)
            self.set(table, index, group, to_table(to), ip_version=4, ip_dscp=index & 63 | 1)
        self.set(table, GROUPS, self.flows.group(table, GROUPS, GROUPS), to_table(to))
        return table

    def large(self, packets: int = MAX_SEGMENTS, count: int = SENDS) -> None:
        """Post large sends."""
        mss = -(-LARGE_BYTES // packets)
        post_large(self.sq, count, self.node.region(LARGE_BYTES).sge(), mss=mss)

    def run(self, least: int) -> None:
        """Send the posted frames; raise unless ``least`` frames leave."""
        self.sq.ring_doorbell()
        self.loop.run()
        found = len(self.wire.sent())
        if found < least:
            raise RuntimeError(f"only {found} frames have left")


def _through_changes(fdb: Fdb, count: int, *last: bytes, **options: Any) -> Iterator[None]:
    number = fdb.tunnel(ReformatType.L2_TO_VXLAN, _VXLAN)
    beside = {"packet_reformat_id": number}
    also = FlowAction.PACKET_REFORMAT
    fdb.flows.set_root(fdb.chain(count, *last, also=also, beside=beside, **options))
    fdb.large()
    yield
    fdb.run(SENDS * MAX_SEGMENTS // 2)


@pattern(f"NIC_TX: 30 tables of {CHANGES} changes each, then a tunnel, large sends")
def sent_through_changes(watch: Watch) -> Iterator[None]:
    yield from _through_changes(Fdb(watch, NIC_TX), 30, action=FlowAction.ALLOW)


@pattern(f"FDB: 15 tables of {CHANGES} changes each, then a tunnel, large sends")
def switched_through_changes(watch: Watch) -> Iterator[None]:
    yield from _through_changes(Fdb(watch), 15, to_vport(UPLINK))


def _compared(ratios: tuple[int, ...]) -> None:
    @pattern(f"FDB: {GROUPS} groups of 17 fields, then {len(ratios)} samplers, large sends")
    def compared(watch: Watch) -> Iterator[None]:
        fdb = Fdb(watch)
        fdb.flows.set_root(fdb.compare(fdb.sampled(ratios, to_vport(UPLINK))))
        fdb.large()
        yield
        fdb.run(SENDS * MAX_SEGMENTS // 2)


_compared((2, 3, 5, 7, 11, 13, 17, 19))
_compared((2, 3, 5))


@pattern(f"FDB: {GROUPS} groups of 17 fields, then 7 samplers, small frames")
def compared_small(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    fdb.flows.set_root(fdb.compare(fdb.sampled((2, 3, 5, 7, 11, 13, 17), to_vport(UPLINK))))
    for number in range(16):
        fdb.sq.send(EthPacket(source=number.to_bytes(4, "big")).frame(), ring=False, flags=0)
    yield
    fdb.run(16)


@pattern("FDB: a sampler, then 30 vPorts twice, large sends")
def sampled_to_many(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    fdb.flows.set_root(fdb.sampled((2,), *[to_vport(UPLINK)] * 60))
    fdb.large()
    yield
    fdb.run(SENDS * MAX_SEGMENTS)


@pattern("FDB: 16,000 entries with one key, for packets of vPorts, in a circle of tables")
def one_key(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    table, count = fdb.flows.table(1, log_size=14), 16_000
    everybody = match(ip_version=0xF)
    group = fdb.flows.group(table, 0, count, enable=OUTER, match_criteria=everybody)
    for index in range(count):
        fdb.set(
            table, index, group, to_vport(UPLINK), value=match(ip_version=4),
            source=FlowSource.UPLINK,
        )  # fmt: skip
    fdb.set(table, count, group, to_table(table), value=match(ip_version=4))
    fdb.flows.set_root(table)
    for number in range(4):
        fdb.sq.send(EthPacket(source=number.to_bytes(4, "big")).frame(), ring=False, flags=0)
    yield
    fdb.run(0)


class RoceEnds:
    """Two functions on a segment, each with RDMA tables on the path of its RoCE packets."""

    def __init__(self, watch: Watch, table_type: FlowTableType) -> None:
        self.watch, self.loop = watch, WatchedLoop(watch)
        self.nodes = roce_nodes(watch, self.loop)
        node = self.nodes[table_type is FlowTableType.RDMA_RX]
        flows = Flows(node.driver, table_type)
        table = flows.table(0, log_size=12)
        masks = dict(list(MASKS.items())[:12])
        criteria = fte_match_param.view(bytearray(match(None, **masks)))
        criteria.misc_parameters.bth_dst_qp = 0xFFFFFF
        for index in range(2000):
            group = flows.group(
                table, index, index, enable=OUTER | MISC, match_criteria=bytes(criteria)
            )
            flows.entry(
                table, index, group, action=FlowAction.ALLOW,
                value=match_misc(bth_dst_qp=index + 1),
            )  # fmt: skip
        flows.set_root(table)


def _roce(table_type: FlowTableType) -> None:
    @pattern(f"{table_type.name}: 2,000 groups of 13 fields, 256 queue pairs")
    def compared(watch: Watch) -> Iterator[None]:
        ends = RoceEnds(watch, table_type)
        channels = [Channel(QpType.RC, *ends.nodes) for _ in range(256)]
        source, target = ends.nodes[0].region(64), ends.nodes[1].region(64)
        for channel in channels:
            channel.write((target.key, target.va), source.sge(0, 64), ring=False)
        yield
        for channel in channels:
            channel.sender.ring()
        ends.loop.run()
        if not all(channel.sent() for channel in channels):
            raise RuntimeError("requests have not completed")


_roce(FlowTableType.RDMA_RX)
_roce(FlowTableType.RDMA_TX)


def _with_contexts(fdb: Fdb, contexts: Sequence[int]) -> None:
    """Create entries that name all of these contexts, and one that forwards every packet to the
    cable.
    """
    table = fdb.flows.table(0, log_size=11, reformat_en=1, decap_en=1)
    last = (1 << 11) - 1
    group = fdb.flows.group(table, 0, last - 1, ip_dscp=0x3F, ip_version=0xF, ethertype=0xFFFF)
    for index, number in enumerate(contexts):
        fdb.set(
            table, index, group, to_vport(UPLINK), also=FlowAction.PACKET_REFORMAT,
            beside={"packet_reformat_id": number}, ip_version=index & 15, ethertype=index + 1,
        )  # fmt: skip
    fdb.set(table, last, fdb.flows.group(table, last, last), to_vport(UPLINK))
    fdb.flows.set_root(table)


@pattern(f"FDB: {CONTEXTS} contexts that end tunnels, frames of GRE")
def ended_tunnels(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    header = EthPacket().front
    _with_contexts(
        fdb,
        [
            fdb.tunnel(ReformatType.L3_TUNNEL_TO_L2, number.to_bytes(6, "big") + header[6:])
            for number in range(CONTEXTS)
        ],
    )
    inner = EthPacket().frame()[14:]
    gre = bytearray(_GRE + inner)
    gre[16:18] = (len(gre) - 14).to_bytes(2, "big")
    for _ in range(64):
        fdb.sq.send(bytes(gre), ring=False, flags=0)
    yield
    fdb.run(64)


@pattern(f"FDB: {CONTEXTS} contexts that insert headers, {FLOWS} flows")
def inserted_headers(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    _with_contexts(
        fdb,
        [
            fdb.tunnel(ReformatType.INSERT_HDR, number.to_bytes(4, "big"), param_1=34)
            for number in range(CONTEXTS)
        ],
    )
    for number in range(FLOWS):
        frame = EthPacket(source=number.to_bytes(4, "big"), payload=bytes(200)).frame()
        fdb.sq.send(frame, ring=False, flags=0)
    yield
    fdb.run(FLOWS)


@pattern("FDB: 200 tables that each insert 64 bytes, large sends of few packets")
def inserted_again(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    number = fdb.tunnel(ReformatType.INSERT_HDR, bytes(64), param_1=64)
    tables = [fdb.flows.table(level, log_size=0, reformat_en=1) for level in range(200)]
    for table, following in pairwise([*tables, 0]):
        to = to_table(following) if following else to_vport(UPLINK)
        fdb.set(
            table, 0, fdb.flows.group(table, 0, 0), to, also=FlowAction.PACKET_REFORMAT,
            beside={"packet_reformat_id": number},
        )  # fmt: skip
    fdb.flows.set_root(tables[0])
    fdb.large(40, 200)
    yield
    fdb.run(100)


@pattern("FDB: 32 tables that each lead to all of these twice, small frames of new flows")
def everywhere(watch: Watch) -> Iterator[None]:
    fdb = Fdb(watch)
    tables = [fdb.flows.table(level, log_size=0) for level in range(32)]
    ways = [to_table(table) for table in tables]
    for table in tables:
        fdb.set(table, 0, fdb.flows.group(table, 0, 0), *ways, *ways)
    fdb.flows.set_root(tables[0])
    for number in range(FLOWS):
        frame = EthPacket().frame()
        fdb.sq.send(frame[:6] + number.to_bytes(6, "big") + frame[12:], ring=False, flags=0)
    yield
    fdb.run(0)
