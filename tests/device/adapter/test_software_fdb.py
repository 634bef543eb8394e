"""An FDB that software owns: one way for packets of the cable, one for those of vPorts."""

import pytest
from helpers.device.adapters import Member, made_with_switch
from helpers.device.meters import create, set_meter

from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.models.switching import with_switch
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.tunnel import GENEVE_PORT
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_table, to_tir, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.steering_entries import SoftwareTables, entry
from emu.driver.world.cable import arrive
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import GeneralObject
from layouts.steering.geneve_option import geneve_tlv_option
from layouts.steering.sampler import sampler_obj

UPLINK, VPORT = 0xFFFF, 5
FDB = FlowTableType.FDB
SOURCE, REGISTERS_1, FLEX_PARSER_0 = 0x0104, 0x0110, 0x0111
MODEL = with_switch(with_software_steering(LINKS["connectx6dx"][PortType.ETH]))
FRAME = EthPacket().frame()
DROP = icm_address(IcmKind.FDB_TX_DROP)


class Fdb:
    """Its manager, and where entries lead."""

    def __init__(self, clock):
        self.wire = TapWire()
        self.manager = Member(made_with_switch(self.wire, MODEL).manager, clock)
        self.driver, self.node = self.manager.driver, self.manager.node
        td = alloc_td(self.driver)
        self.sq = SendQueue(self.node, tisn=create_tis(self.driver, td))
        self.buffers = Buffers(ReceiveQueue(self.node))
        own = Flows(self.driver)
        table = own.table(0, log_size=0)
        tir = to_tir(create_direct_tir(self.driver, td, self.buffers.rq.rqn))
        own.entry(table, 0, own.group(table, 0, 0), tir)
        own.set_root(table)
        self.tables = SoftwareTables(self.node)
        self.flows = Flows(self.driver, FDB)
        caps = self.manager.hca.caps.eswitch_tables
        self.to_cable = caps.sw_steering_uplink_icm_address_tx
        self.from_cable = self.vport(0).sw_steering_vport_icm_address_rx

    def vport(self, number, **fields):
        answer = self.driver.must(Op.QUERY_ESW_VPORT_CONTEXT, vport_number=number, **fields)
        return answer.esw_vport_context

    def root(self, rx, tx):
        """Entries for the cable's packets, and for vPorts'."""
        places = [self.tables.place(one) for one in (rx, tx)]
        self.flows.set_root(self.tables.table(places[0], FDB, places[1]))

    def passes(self, source_port, frame=FRAME):
        """The vPorts that get a frame of the cable or of the manager, and what they get."""
        if source_port == UPLINK:
            arrive(self.manager.hca, Frame(frame))
        else:
            self.sq.send(frame)
        self.node.settle()
        to_manager = [(0, data) for _, data in self.buffers.drain()]
        for _ in to_manager:
            self.buffers.post()
        return [*((UPLINK, one.data) for one in self.wire.sent()), *to_manager]


@pytest.fixture
def fdb(clock):
    return Fdb(clock)


def test_each_side_has_its_own_way(fdb):
    fdb.root(entry(hit=fdb.from_cable), entry(hit=fdb.to_cable))
    assert fdb.passes(UPLINK) == [(0, FRAME)]
    assert fdb.passes(0) == [(UPLINK, FRAME)]
    fdb.root(entry(hit=icm_address(IcmKind.FDB_RX_DROP)), entry(hit=DROP))
    assert fdb.passes(UPLINK) == fdb.passes(0) == []


def test_by_source(fdb):
    """The vhca id of the function behind the vPort that has sent it; the manager's is 0."""
    mask, drop = b"\0\0\xff\xff", fdb.tables.place(entry(hit=DROP))
    fdb.root(
        entry(hit=fdb.from_cable),
        entry(SOURCE, mask=mask, tag=bytes(4), miss=drop, hit=fdb.to_cable),
    )
    assert fdb.passes(0) == [(UPLINK, FRAME)]
    fdb.root(
        entry(hit=fdb.from_cable),
        entry(SOURCE, mask=mask, tag=b"\0\0\0\5", miss=drop, hit=fdb.to_cable),
    )
    assert fdb.passes(0) == []


def test_by_an_option_of_geneve(fdb):
    """The lookup type of flexible parsers 0 to 3, the first of which is the last of its dwords."""
    mask, data = bytes(12) + b"\xff" * 4, b"\0\1\0\2"
    drop = fdb.tables.place(entry(hit=DROP))
    fdb.root(
        entry(hit=fdb.from_cable),
        entry(FLEX_PARSER_0, mask=mask, tag=bytes(12) + data, miss=drop, hit=fdb.to_cable),
    )
    option = b"\1\2\x80\1"
    ports = b"\xc0\0" + GENEVE_PORT.to_bytes(2, "big")
    geneve = b"\2\0\x65\x58\0\0\7\0" + option + data + FRAME
    frame = EthPacket(protocol=UDP, ports=ports, payload=geneve).frame()
    assert fdb.passes(0, frame) == [], "nobody looks for it"
    shape = geneve_tlv_option.new(option_class=0x102, option_type=0x80, option_data_length=1)
    kind = {"op_mod": GeneralObject.GENEVE_TLV_OPT}
    fdb.driver.must(Op.CREATE_GENERAL_OBJECT, **kind, extra=bytes(shape))
    assert fdb.passes(0, frame) == [(UPLINK, frame)]
    assert fdb.passes(0, frame.replace(data, b"\0\1\0\3")) == []


def test_several_by_a_table_of_firmwares(fdb):
    """As the driver mirrors (dr_fw.c: mlx5dr_fw_create_md_tbl): vPorts, and a table of software."""
    tag = b"\x0a\0\x0c\0\x81\0\0\5"
    inner = fdb.tables.table(0, FDB, fdb.tables.place(entry(hit=fdb.to_cable, action=tag)))
    several = fdb.flows.table(62, log_size=0)
    group = fdb.flows.group(several, 0, 0)
    fdb.flows.entry(several, 0, group, to_vport(UPLINK), to_table(inner))
    context = fdb.driver.must(
        Op.QUERY_FLOW_TABLE, table_type=FDB, table_id=several
    ).flow_table_context
    fdb.root(entry(hit=fdb.from_cable), entry(hit=context.sw_owner_icm_root_1))
    tagged = MACS + tag[4:] + FRAME[12:]
    assert sorted(fdb.passes(0)) == sorted([(UPLINK, FRAME), (UPLINK, tagged)])


def test_metered(fdb, clock):
    """What the meter has no room for is red, and an entry behind it drops that."""
    sq = SendQueue(fdb.node)
    number = create(fdb.driver, fdb.node.pdn)
    set_meter(sq, number, burst=len(FRAME) + 4)
    drop = fdb.tables.place(entry(hit=DROP))
    green = bytes(4) + b"\0\0\0\2"
    behind = fdb.tables.place(
        entry(REGISTERS_1, mask=bytes(4) + b"\0\0\0\xff", tag=green, miss=drop, hit=fdb.to_cable)
    )
    meter = b"\x12" + number.to_bytes(3, "big") + b"\x82\0\0\6"  # register C5, undefined
    fdb.root(entry(hit=fdb.from_cable), entry(hit=behind, action=meter))
    assert fdb.passes(0) == [(UPLINK, FRAME)]
    assert fdb.passes(0) == []
    gone = b"\x12\0\xff\xff\x82\0\0\6"
    fdb.root(entry(hit=fdb.from_cable), entry(hit=behind, action=gone))
    assert fdb.passes(0) == []


@pytest.mark.hostile
def test_a_meter_behind_the_last_one_of_its_range(fdb):
    first = create(fdb.driver, fdb.node.pdn, log_range=1)
    for number, passed in ((first + 1, [(UPLINK, FRAME)]), (first + 2, [])):
        meter = b"\x12" + number.to_bytes(3, "big") + b"\x82\0\0\6"
        fdb.root(entry(hit=fdb.from_cable), entry(hit=fdb.to_cable, action=meter))
        assert fdb.passes(0) == passed


def test_sampled(fdb, clock):
    """Each second packet goes another way as well; the driver asks where a sampler is."""
    other = Member(fdb.manager.function.adapter.add(VPORT), clock)
    to_other = fdb.vport(VPORT, other_vport=1).sw_steering_vport_icm_address_rx
    roots = [fdb.tables.place(entry(hit=to)) for to in (fdb.to_cable, to_other)]
    default, sample = (fdb.tables.table(0, FDB, root) for root in roots)
    given = bytes(
        sampler_obj.new(
            table_type=FDB, level=63, ignore_flow_level=1, sample_ratio=2,
            default_table_id=default, sample_table_id=sample,
        )
    )  # fmt: skip
    kind = {"op_mod": GeneralObject.SAMPLER}
    number = fdb.driver.must(Op.CREATE_GENERAL_OBJECT, **kind, extra=given).obj_id
    answer = fdb.driver.must(
        Op.QUERY_GENERAL_OBJECT, **kind, obj_id=number, out_extra=sampler_obj.size
    )
    found = sampler_obj.view(b"".join(answer.object).ljust(sampler_obj.size, b"\0"))
    assert (found.sample_ratio, found.default_table_id) == (2, default)
    fdb.root(entry(hit=fdb.from_cable), entry(hit=found.sw_steering_icm_address_tx))
    for copies in (0, 1, 1, 2):
        assert fdb.passes(0) == [(UPLINK, FRAME)]
        assert other.hca.nic_vport.received.packets == copies
