"""Ethernet vPorts of virtual functions, for the manager of their switch."""

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.no_wire import NoWire
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import match_misc, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.enums.flow_table import FlowTableType
from layouts.enums.vport import VportAdminState, VportStateOpMod
from layouts.rings.eqe import eqe_vport_change

VF = 2
NODE_GUID = 0x1122_3344_5566_7788


def modify_vport(driver, select, **context):
    return driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={select: 1}, nic_vport_context=context
    )


@pytest.mark.parametrize("end", ["flr", "teardown", "disable"])
def test_the_manager_learns_that_a_driver_has_ended(clock, end):
    """Entries of the FDB for its addresses go (core/eswitch.c: esw_vport_change_handle_locked)."""
    adapter = made_with_switch(NoWire())
    pf, vf = (Member(place, clock) for place in (adapter.manager, adapter.add(VF)))
    eqn = pf.driver.create_eq(events=[EventType.NIC_VPORT_CHANGE])
    armed = {"arm_change_event": 1, "event_on_uc_address_change": 1, "event_on_promisc_change": 1}
    other = {"other_vport": 1, "vport_number": VF}

    def arm():
        pf.driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"change_event": 1},
            nic_vport_context=armed, **other,
        )  # fmt: skip

    arm()
    modify_vport(vf.driver, "promisc", promisc_all=1)
    assert len(pf.driver.eqs[eqn].drain()) == 1
    arm()
    if end == "flr":
        vf.function.reset()
    elif end == "teardown":
        vf.driver.must(Op.TEARDOWN_HCA)
    else:
        pf.driver.must(Op.DISABLE_HCA, function_id=VF)
    (event,) = pf.driver.eqs[eqn].drain()
    assert eqe_vport_change.view(bytearray(event.data)).vport_num == VF
    context = pf.driver.must(Op.QUERY_NIC_VPORT_CONTEXT, **other).nic_vport_context
    assert context.promisc_all == 0
    arm()
    vf.function.reset()
    assert not pf.driver.eqs[eqn].drain(), "nothing has changed"
    pf.driver.must(Op.ENABLE_HCA, function_id=VF)
    driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs).probe(is_vf=True)
    modify_vport(driver, "promisc", promisc_uc=1)
    assert len(pf.driver.eqs[eqn].drain()) == 1, "armed before the reset"


def test_no_event_while_the_manager_itself_ends(clock):
    """Its memory may be gone."""
    adapter = made_with_switch(NoWire())
    pf, vf = (Member(place, clock) for place in (adapter.manager, adapter.add(VF)))
    eqn = pf.driver.create_eq(events=[EventType.NIC_VPORT_CHANGE])
    modify_vport(vf.driver, "promisc", promisc_all=1)
    pf.driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"change_event": 1}, other_vport=1,
        nic_vport_context={"arm_change_event": 1, "event_on_promisc_change": 1}, vport_number=VF,
    )  # fmt: skip
    queue = pf.hca.eqs.need(eqn)
    before = queue.pi
    pf.function.reset()
    assert not vf.hca.nic_vport.promisc_all
    assert queue.pi == before


def test_packets_of_a_vport_that_is_down_are_counted(clock):
    wire = TapWire()
    adapter = made_with_switch(wire)
    pf, vf = (Member(place, clock) for place in (adapter.manager, adapter.add(VF)))
    sq = SendQueue(vf.node, tisn=create_tis(vf.driver, alloc_td(vf.driver)))
    fdb = Flows(pf.driver, FlowTableType.FDB)
    table = fdb.table(0)
    value = match_misc(source_port=0xFFFF)
    group = fdb.group(table, 0, 0, enable=2, match_criteria=value)
    fdb.entry(table, 0, group, to_vport(VF), value=value)
    fdb.set_root(table)
    other = {"other_vport": 1, "vport_number": VF}
    frame = EthPacket(payload=b"nobody").frame()
    for state, dropped in ((VportAdminState.DOWN, 1), (VportAdminState.AUTO, 1)):
        pf.driver.must(
            Op.MODIFY_VPORT_STATE, op_mod=VportStateOpMod.ESW_VPORT, admin_state=state, **other
        )
        sq.send(frame)
        vf.node.settle()
        pf.hca.switch.receive(Frame(frame))
        env = pf.driver.must(Op.QUERY_VNIC_ENV, **other).vport_env
        assert env.receive_discard_vport_down == env.transmit_discard_vport_down == dropped
    assert len(wire.sent()) == 1


def test_what_the_manager_has_set_stays_over_resets_of_a_function(clock):
    adapter = made_with_switch(NoWire())
    pf, vf = (Member(place, clock) for place in (adapter.manager, adapter.add(VF)))
    other = {"other_vport": 1, "vport_number": VF}
    mac = {"mac_addr_47_32": 0x0200, "mac_addr_31_0": 7}
    pf.driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"permanent_address": 1, "node_guid": 1},
        nic_vport_context={"permanent_address": mac, "node_guid": NODE_GUID}, **other,
    )  # fmt: skip
    down = {"op_mod": VportStateOpMod.ESW_VPORT, "admin_state": VportAdminState.DOWN}
    pf.driver.must(Op.MODIFY_VPORT_STATE, **down, **other)
    vf.function.reset()
    driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs).probe(is_vf=True)
    context = driver.must(Op.QUERY_NIC_VPORT_CONTEXT).nic_vport_context
    assert (context.permanent_address.mac_addr_31_0, context.node_guid) == (7, NODE_GUID)
    assert driver.must(Op.QUERY_VPORT_STATE).state == 0
    pf.function.reset()
    assert vf.hca.nic_vport.switch_state is VportAdminState.AUTO
    assert vf.hca.nic_vport.node_guid == 0
