"""Register A beside a packet: what comes with one that is sent, for the tables of software."""

import pytest

from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import set_field, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import HairpinPair
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.steering_entries import SoftwareTables, entry
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.flow_table import FlowTableType
from layouts.enums.modify_header import ModifyField
from layouts.enums.wqe import EthChecksum, Opcode

REGISTER_A = 0x010E
TX_DROP, TX_ALLOW = icm_address(IcmKind.TX_DROP), icm_address(IcmKind.TX_ALLOW)
FRAME = EthPacket(payload=bytes(200)).frame()
TAG = b"\x81\x00\x60\x05"
WANTED = 0x1234
CHECKS = EthChecksum.L3 | EthChecksum.L4


@pytest.fixture
def model():
    return with_software_steering(LINKS["connectx6dx"][PortType.ETH])


@pytest.fixture(autouse=True)
def root(node, driver):
    """Of what is sent only packets with WANTED in register A pass; they get a tag."""
    tables = SoftwareTables(node)
    drop = tables.place(entry(hit=TX_DROP))
    tag = tables.place(entry(hit=TX_ALLOW, action=b"\x0a\x00\x0c\x00" + TAG))
    value = WANTED.to_bytes(4, "big")
    match = entry(REGISTER_A, mask=b"\xff" * 4, tag=value, miss=drop, hit=tag)
    table = tables.table(tables.place(match), FlowTableType.NIC_TX)
    Flows(driver, FlowTableType.NIC_TX).set_root(table)


@pytest.fixture
def beginnings(node, eth_wire):
    """What has left since it was last asked: addresses, and what is behind them."""

    def find():
        node.settle()
        return [one.data[:16] for one in eth_wire.sent()]

    return find


@pytest.mark.parametrize("metadata", [WANTED, WANTED + 1, 0])
def test_a_request_has_it_for_each_of_its_packets(node, sq, beginnings, metadata):
    """DPDK's set meta: of one frame, of one that is cut, of several by one request."""
    region = node.region(1 << 12, va=0x10000)
    region.write(FRAME, 0)
    data = (len(FRAME), region.key, region.va)
    sq.send(data, metadata=metadata)
    large = {"opcode": Opcode.LSO, "headers": FRAME[:54], "mss": 100}
    sq.send(data, metadata=metadata, cs_flags=CHECKS, **large)
    sq.send(data, data, metadata=metadata, opcode=Opcode.ENHANCED_MPSW)
    left = 4 if metadata == WANTED else 0
    assert beginnings() == [FRAME[:12] + TAG] * left
    assert [done.syndrome for done in sq.cq.drain()] == [0, 0, 0]


@pytest.mark.parametrize("value", [WANTED, WANTED + 1, 0])
def test_register_b_of_a_hairpin_is_it(driver, hca, flows, td, beginnings, value):
    """By that DPDK puts headers around packets when they leave."""
    pair = HairpinPair(driver, driver)
    table = flows.table(0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)
    tir = to_tir(create_direct_tir(driver, td, pair.rqn))
    action = flows.context(set_field(ModifyField.METADATA_REG_B, value, 32))
    flows.entry(table, 0, group, tir, modify=action)
    arrive(hca, Frame(FRAME))
    assert beginnings() == ([FRAME[:12] + TAG] if value == WANTED else [])
