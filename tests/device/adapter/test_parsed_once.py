"""A frame that the switch leaves unchanged is parsed once, and not copied."""

import sys

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.device.engine.eth.receive import arrive
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

VPORT = 3
PACKET = EthPacket(payload=bytes(100)).frame()


@pytest.fixture
def pair(clock):
    """The manager of a switch whose one entry leads to a virtual function, and that function."""
    adapter = made_with_switch(TapWire())
    manager = Member(adapter.manager, clock)
    function = Member(adapter.add(VPORT), clock)
    fdb = Flows(manager.driver, FlowTableType.FDB)
    table = fdb.table(0)
    fdb.entry(table, 0, fdb.group(table, 0, 0), to_vport(VPORT))
    fdb.set_root(table)
    return manager, function


def calls(take, *args):
    """Return the code objects that run while the switch takes a frame."""
    counted = []
    sys.setprofile(lambda frame, event, _: counted.append((event, frame.f_code)))
    try:
        take(*args)
    finally:
        sys.setprofile(None)
    return [code for event, code in counted if event == "call"]


@pytest.mark.pure("it counts calls inside of the device")
def test_a_frame_is_parsed_once(pair):
    manager, function = pair
    manager.hca.switch.receive(Frame(PACKET))
    counted = calls(manager.hca.switch.receive, Frame(PACKET))
    assert function.hca.nic_vport.received.packets == 2
    assert counted.count(parse.__code__) == 1
    assert Frame.__init__.__code__ not in counted


def pass_register(manager):
    """Let frames take register C 0 along to the function."""
    manager.driver.must(
        Op.MODIFY_ESW_VPORT_CONTEXT, vport_number=VPORT, other_vport=1,
        field_select={"fdb_to_vport_reg_c_id": 1}, esw_vport_context={"fdb_to_vport_reg_c_id": 1},
    )  # fmt: skip


@pytest.mark.pure("it counts calls inside of the device")
def test_a_segments_frame_with_registers_for_its_receiver_is_copied(pair):
    """Other receivers of the segment's object do not see the registers."""
    manager, function = pair
    pass_register(manager)
    frame = Frame(PACKET)
    assert calls(manager.hca.switch.receive, frame).count(Frame.__init__.__code__) == 1
    assert (frame.registers, frame.parsed) == (None, None)
    assert function.hca.nic_vport.received.packets == 1


@pytest.mark.pure("it counts calls inside of the device")
def test_a_vports_frame_with_registers_for_its_receiver_is_not_copied(pair):
    """The switch is its only receiver."""
    manager, function = pair
    pass_register(manager)
    counted = calls(manager.hca.switch.forward, manager.hca, Frame(PACKET))
    assert function.hca.nic_vport.received.packets == 1
    assert Frame.__init__.__code__ not in counted


def test_headers_of_other_bytes_are_void(pair):
    """A fault or a link has changed the frame after the switch."""
    _, function = pair
    arrive(function.hca, Frame(bytes(10), parsed=parse(PACKET)))
    received = function.hca.nic_vport.received
    assert (received.packets, received.errors) == (0, 1)
