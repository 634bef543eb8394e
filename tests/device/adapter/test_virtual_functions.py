"""Virtual functions of a physical one: their start, their end, and their InfiniBand ports."""

import pytest
from helpers.device.adapters import GUID, Member, made, made_infiniband, made_with_switch

from emu.device.engine import lifecycle
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.wire import NoWire
from emu.device.state.containment import RESTART_NS
from emu.device.state.hca import HcaState
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import match_misc, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from emu.server.net.ib.local import LocalFabric
from layouts.enums import (
    EventType,
    HcaVportField,
    Op,
    PhysState,
    PortChange,
    PortState,
    Status,
    TeardownProfile,
    VportPolicy,
)
from layouts.eth_enums import FlowTableType, VportAdminState, VportStateOpMod
from layouts.function.caps import cmd_hca_cap
from layouts.rings.eqe import eqe_vport_change

VF = 2
OTHER = {"other_vport": 1, "vport_number": VF, "port_num": 1}
NODE_GUID, PORT_GUID = 0x1122_3344_5566_7788, 0x1122_3344_5566_7799


@pytest.fixture(params=["ethernet", "switch", "infiniband"])
def members(request, clock):
    """A physical function and its second virtual one, both with drivers."""
    if request.param == "infiniband":
        adapter, wire = made_infiniband(), LocalFabric(clock)
    else:
        maker = made if request.param == "ethernet" else made_with_switch
        adapter, wire = maker(NoWire()), None
    places = adapter.manager, adapter.add(1), adapter.add(VF)
    return [Member(place, clock, wire) for place in (places[0], places[2])]


@pytest.fixture
def ib(clock):
    adapter, wire = made_infiniband(), LocalFabric(clock)
    return [Member(place, clock, wire) for place in (adapter.manager, adapter.add(VF))]


def test_a_virtual_function_waits_until_it_is_enabled(clock):
    adapter = made(NoWire())
    pf, vhca = Member(adapter.manager, clock), adapter.add(1)
    assert vhca.is_virtual
    assert not vhca.may_begin
    vf = Member(vhca, clock)
    pf.driver.must(Op.DISABLE_HCA, function_id=1)
    vf.function.reset()
    driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs)
    driver.attach()
    assert driver.command(Op.ENABLE_HCA).status == Status.BAD_SYS_STATE_ERR


@pytest.mark.parametrize("end", ["teardown", "forced", "reset"])
def test_a_physical_function_ends_its_virtual_ones(members, end):
    pf, vf = members
    if end == "reset":
        pf.function.reset()
    else:
        pf.driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.FORCE_CLOSE * (end == "forced"))
    assert vf.hca.state is HcaState.DISABLED
    assert not any(map(len, vf.hca.tables))
    assert vf.driver.command(Op.ENABLE_HCA).status == Status.BAD_SYS_STATE_ERR


def test_a_failure_of_the_physical_function_is_its_own(members, clock, caplog):
    """Its driver recovers and enables them again (core/sriov.c: mlx5_sriov_attach)."""
    pf, vf = members
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        pf.hca.fail()
    caplog.clear()
    vf.driver.must(Op.ALLOC_PD)
    clock.advance(RESTART_NS)
    driver = Driver(FunctionBar(pf.function), pf.memory, pf.driver.irqs).probe()
    driver.must(Op.ENABLE_HCA, function_id=VF)
    assert vf.hca.state is HcaState.INITIALIZED
    assert vf.hca.vport.is_up
    vf.driver.must(Op.ALLOC_PD)


def test_a_reset_of_a_virtual_function_is_its_own(members):
    pf, vf = members
    vf.function.reset()
    assert pf.hca.state is HcaState.INITIALIZED
    assert pf.hca.vport.is_up
    driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs)
    driver.probe(is_vf=True)
    assert vf.hca.vport.is_up


def test_number_of_virtual_functions(clock):
    adapter = made_with_switch(NoWire())
    pf = Member(adapter.manager, clock)
    one, _ = adapter.add(1), adapter.add(VF)
    one.vf_enabled = True
    host = pf.driver.must(Op.QUERY_ESW_FUNCTIONS).host_params_context
    assert (host.host_num_of_vfs, host.host_total_vfs) == (1, 2)
    vf = Member(one, clock)
    assert vf.driver.command(Op.QUERY_ESW_FUNCTIONS).status == Status.BAD_OP_ERR


def test_end_ports_of_infiniband(ib):
    pf, vf = ib
    assert pf.hca.adapter.ports == [pf.hca.ib]
    assert (pf.hca.ib.lid, vf.hca.ib.lid) == (1, 2)
    context = vf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert (context.lid, context.has_smi) == (2, 0)
    assert context.port_guid == context.node_guid == GUID + 2
    assert context.vport_state_policy == VportPolicy.FOLLOW


def test_an_end_port_follows_the_physical_port(ib):
    pf, vf = ib
    for up in (False, True):
        lifecycle.set_link(pf.hca, up=up)
        assert pf.hca.ib.is_up is vf.hca.ib.is_up is up
    assert vf.port_events() == [PortChange.DOWN, PortChange.ACTIVE]
    lifecycle.set_admin(vf.hca, up=False)
    assert pf.hca.ib.is_up
    assert not vf.hca.ib.is_up


def test_an_end_port_has_a_link_while_its_function_is_enabled(ib):
    pf, vf = ib
    pf.driver.must(Op.DISABLE_HCA, function_id=VF)
    assert vf.hca.ib.state is PortState.DOWN
    vf.function.reset()
    assert (vf.hca.ib.state, vf.hca.ib.link_downed) == (PortState.DOWN, 0)
    pf.driver.must(Op.ENABLE_HCA, function_id=VF)
    assert vf.hca.ib.state is PortState.ACTIVE


def modify(driver, fields, **context):
    return driver.command(
        Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context={"field_select": fields, **context}, **OTHER
    )


def test_policies_of_a_vport(ib):
    pf, vf = ib
    for policy, cable, is_up in (
        (VportPolicy.DOWN, True, False), (VportPolicy.DOWN, False, False),
        (VportPolicy.UP, False, True), (VportPolicy.UP, True, True),
        (VportPolicy.FOLLOW, False, False), (VportPolicy.FOLLOW, True, True),
    ):  # fmt: skip
        lifecycle.set_link(pf.hca, up=cable)
        fields = HcaVportField.STATE_POLICY
        assert modify(pf.driver, fields, vport_state_policy=policy).status == Status.OK
        assert vf.hca.ib.is_up is is_up
        assert (vf.hca.ib.phys_state is PhysState.LINK_UP) is is_up
        context = pf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT, **OTHER).hca_vport_context
        assert (context.vport_state_policy, context.port_state == PortState.ACTIVE) == (
            policy, is_up,
        )  # fmt: skip
    down, active = PortChange.DOWN, PortChange.ACTIVE
    assert vf.port_events() == [down, active, down, active]


def test_guids_of_a_vport(ib):
    """As ``ip link set ib0 vf 0 node_guid`` sets them: from the next start of its driver on."""
    pf, vf = ib
    fields = HcaVportField.PORT_GUID | HcaVportField.NODE_GUID
    given = {"port_guid": PORT_GUID, "node_guid": NODE_GUID}
    assert modify(pf.driver, fields, **given).status == Status.OK
    context = pf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT, **OTHER).hca_vport_context
    assert (context.port_guid, context.node_guid) == (PORT_GUID, NODE_GUID)
    own = vf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert own.port_guid == GUID + 2, "its driver has read it"
    for _ in range(2):
        vf.function.reset()
        driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs)
        driver.probe(is_vf=True)
        own = driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
        assert (own.port_guid, own.node_guid) == (PORT_GUID, NODE_GUID)
        gid = driver.must(Op.QUERY_HCA_VPORT_GID, out_extra=16).gid[0]
        assert bytes(gid)[8:] == PORT_GUID.to_bytes(8, "big")
    pf.function.reset()
    assert vf.hca.vhca.hca_vport.port_guid == 0


def test_tables_of_another_vport(ib):
    pf, _ = ib
    gid = pf.driver.must(Op.QUERY_HCA_VPORT_GID, out_extra=16, **OTHER).gid[0]
    assert bytes(gid)[8:] == (GUID + 2).to_bytes(8, "big")
    assert pf.driver.must(Op.QUERY_HCA_VPORT_PKEY, out_extra=4, **OTHER).pkey[0].pkey == 0xFFFF


@pytest.mark.parametrize(
    ("fields", "context"),
    [
        (1 << 3, {}),
        (1 << 31, {}),
        (HcaVportField.STATE_POLICY, {"vport_state_policy": 3}),
        (HcaVportField.NODE_GUID, {"node_guid": 5, "cap_mask1_field_select": 1}),
    ],
)
def test_what_of_a_vport_cannot_be_set(ib, fields, context):
    pf, vf = ib
    assert modify(pf.driver, fields, **context).status == Status.BAD_PARAM_ERR
    assert vf.hca.vhca.hca_vport.node_guid == 0
    own = {"field_select": HcaVportField.NODE_GUID, "node_guid": 5}
    for driver in (pf.driver, vf.driver):
        answer = driver.command(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=own)
        assert answer.status == Status.BAD_PARAM_ERR


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

    modify_vport(vf.driver, "promisc", promisc_all=1)
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


def test_capabilities_that_the_manager_has_set(members):
    """`devlink port function set roce disable`: also for the next driver of the function."""
    pf, vf = members
    vf.driver.must(Op.TEARDOWN_HCA)
    other = {"other_function": 1, "function_id": VF}
    page = bytearray(pf.driver.must(Op.QUERY_HCA_CAP, **other).capability)
    field = "atomic" if cmd_hca_cap.view(page).atomic else "sho"
    setattr(cmd_hca_cap.view(page), field, 0)
    pf.driver.must(Op.SET_HCA_CAP, capability=bytes(page), **other)
    for _ in range(2):
        vf.function.reset()
        driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs).probe(is_vf=True)
        found = driver.must(Op.QUERY_HCA_CAP).capability
        assert getattr(cmd_hca_cap.view(found), field) == 0
    pf.function.reset()
    vf.function.reset()
    assert getattr(vf.hca.caps.general, field) == 1
