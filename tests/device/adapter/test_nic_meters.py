"""Flow meters in NIC tables that software owns (dr_action.c: next_action_state)."""

import pytest
from helpers.device.adapters import Member, made_with_switch
from helpers.device.meters import create, set_meter

from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.models.switching import with_switch
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.plain import plain
from emu.device.port.eth.segment import segment, unsegmented
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.steering_entries import SoftwareTables, entry
from emu.driver.world.cable import arrive
from emu.driver.world.tap_wire import TapWire
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import MeterMode
from layouts.enums.tir import DispType
from layouts.enums.wqe import EthChecksum, Opcode

MODEL = with_switch(with_software_steering(LINKS["connectx6dx"][PortType.ETH]))
REGISTERS_1 = 0x0110
GREEN = bytes(4) + b"\0\0\0\2"
MSS, PACKETS = 1000, 8
HEADER = EthPacket(payload=b"x", flags=0x10).header()
PAYLOAD = bytes(MSS * PACKETS)
SINGLE = segment(HEADER, PAYLOAD, MSS)
BURST = {"mode": MeterMode.NUM_PACKETS, "burst": 512}
"""Of four packets, each of which counts as 128 bytes."""
GREENS = SINGLE[:4]


class Metered:
    """A function whose packets are dropped unless they are green."""

    def __init__(self, clock):
        self.wire = TapWire()
        member = Member(made_with_switch(self.wire, MODEL).manager, clock)
        self.node, self.driver, self.hca = member.node, member.driver, member.hca
        self.tables, td = SoftwareTables(self.node), alloc_td(self.driver)
        self.sq = SendQueue(self.node, tisn=create_tis(self.driver, td))
        self.buffers = Buffers(ReceiveQueue(self.node, log_size=6))
        context = {
            "disp_type": DispType.DIRECT, "transport_domain": td,
            "inline_rqn": self.buffers.rq.rqn,
        }  # fmt: skip
        made = self.driver.must(Op.CREATE_TIR, ctx=context)
        self.tir = made.icm_address_39_32 << 32 | made.icm_address_31_0
        self.number = create(self.driver, self.node.pdn)
        set_meter(SendQueue(self.node), self.number, **BURST)

    def meter(self, kind, to, drop, times=1):
        """Make the root table of a type: a meter, and behind it an entry for green packets."""
        at = self.tables.place(entry(hit=icm_address(drop)))
        mask = bytes(4) + b"\0\0\0\xff"
        at = self.tables.place(entry(REGISTERS_1, mask=mask, tag=GREEN, miss=at, hit=to))
        action = b"\x12" + self.number.to_bytes(3, "big") + b"\x82\0\0\6"  # register C5, undefined
        for _ in range(times):
            at = self.tables.place(entry(hit=at, action=action))
        Flows(self.driver, kind).set_root(self.tables.table(at, kind))

    def received(self, *frames):
        for frame in frames:
            arrive(self.hca, frame)
        self.node.settle()
        return [bytes(data) for _, data in self.buffers.drain()]

    def sent(self):
        self.node.settle()
        return [bytes(data) for frame in self.wire.sent() for data in plain(frame)]


@pytest.fixture
def metered(clock):
    return Metered(clock)


def test_received_packets(metered):
    metered.meter(FlowTableType.NIC_RX, metered.tir, IcmKind.RX_DROP)
    assert metered.received(*map(Frame, SINGLE)) == GREENS


@pytest.mark.parametrize("count", [1, 2])
def test_packets_of_received_super_frames(metered, count):
    metered.meter(FlowTableType.NIC_RX, metered.tir, IcmKind.RX_DROP)
    large = Frame(unsegmented(HEADER, PAYLOAD, MSS), MSS, checked=True)
    assert metered.received(*[large] * count) == GREENS
    vport = metered.hca.nic_vport
    assert vport.received.packets == PACKETS * count
    assert vport.steering_discards == PACKETS * count - 4


def test_sent_packets(metered):
    metered.meter(FlowTableType.NIC_TX, icm_address(IcmKind.TX_ALLOW), IcmKind.TX_DROP)
    for frame in SINGLE:
        region = metered.node.region(len(frame))
        region.write(frame)
        metered.sq.send((len(frame), region.key, region.va))
    assert metered.sent() == GREENS
    assert metered.hca.nic_vport.sent.discards == 0


def test_packets_of_a_large_send(metered):
    metered.meter(FlowTableType.NIC_TX, icm_address(IcmKind.TX_ALLOW), IcmKind.TX_DROP)
    region = metered.node.region(len(PAYLOAD))
    region.write(PAYLOAD)
    metered.sq.send(
        (len(PAYLOAD), region.key, region.va), opcode=Opcode.LSO, headers=HEADER, mss=MSS,
        cs_flags=EthChecksum.L3 | EthChecksum.L4,
    )  # fmt: skip
    assert metered.sent() == GREENS
    assert metered.hca.nic_vport.sent.discards == 0


@pytest.mark.hostile
@pytest.mark.parametrize("mss", [0, MSS])
def test_more_meters_than_a_packet_may_pass(metered, mss):
    metered.meter(FlowTableType.NIC_TX, icm_address(IcmKind.TX_ALLOW), IcmKind.TX_DROP, times=9)
    if mss:
        region = metered.node.region(len(PAYLOAD))
        data = (len(PAYLOAD), region.key, region.va)
        metered.sq.send(data, opcode=Opcode.LSO, headers=HEADER, mss=mss)
    else:
        metered.sq.send(EthPacket().frame())
    assert metered.sent() == []
    assert metered.hca.nic_vport.sent.discards == (PACKETS if mss else 1)
