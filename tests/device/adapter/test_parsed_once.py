"""A frame that the switch leaves unchanged is parsed once: its receiver uses the same headers."""

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
from layouts.eth_enums import FlowTableType

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


@pytest.mark.pure("it counts calls inside of the device")
def test_a_frame_is_parsed_once(pair):
    manager, function = pair
    manager.hca.switch.receive(Frame(PACKET))
    counted = []
    sys.setprofile(lambda frame, event, _: counted.append((event, frame.f_code)))
    try:
        manager.hca.switch.receive(Frame(PACKET))
    finally:
        sys.setprofile(None)
    assert function.hca.nic_vport.received.packets == 2
    assert counted.count(("call", parse.__code__)) == 1


def test_headers_of_other_bytes_are_void(pair):
    """A fault or a link has changed the frame after the switch."""
    _, function = pair
    arrive(function.hca, Frame(bytes(10), parsed=parse(PACKET)))
    received = function.hca.nic_vport.received
    assert (received.packets, received.errors) == (0, 1)
