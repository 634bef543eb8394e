"""InfiniBand end ports of virtual functions, and what the physical function sets of them."""

import pytest
from helpers.device.adapters import GUID, Member, made_infiniband, set_policy

from emu.device.engine import lifecycle
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.function.function import Function
from emu.device.state.containment import RESTART_NS
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import PortChange
from layouts.enums.vport import HcaVportField, PhysState, PortState, VportPolicy

VF = 2
OTHER = {"other_vport": 1, "vport_number": VF, "port_num": 1}
NODE_GUID, PORT_GUID = 0x1122_3344_5566_7788, 0x1122_3344_5566_7799


@pytest.fixture
def fresh(clock):
    """A physical function and a virtual one, of which nothing is set."""
    adapter, wire = made_infiniband(), LocalFabric(clock)
    return [Member(place, clock, wire) for place in (adapter.manager, adapter.add(VF))]


@pytest.fixture
def ib(fresh):
    """The same, with an end port that follows the physical one."""
    pf, vf = fresh
    set_policy(pf.driver, VF)
    vf.port_events()
    return fresh


def test_end_ports_of_infiniband(fresh):
    pf, vf = fresh
    assert pf.hca.adapter.ports == [pf.hca.ib]
    assert (pf.hca.ib.lid, vf.hca.ib.lid) == (1, 2)
    context = vf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert (context.lid, context.has_smi) == (2, 0)
    assert context.port_guid == context.node_guid == GUID + 2
    assert (context.vport_state_policy, context.port_state) == (VportPolicy.DOWN, PortState.DOWN)


def test_a_virtual_function_shares_its_physical_ones_part_of_the_administrator(fresh, clock):
    pf, vf = fresh
    wire = pf.hca.wire
    options = HcaOptions(guid=GUID + 9, lid=9)
    Function(pf.hca.model, options, TABLE, Memory(), IrqList(), clock, wire)
    assert wire.host_of(vf.hca.ib.lid) == wire.host_of(pf.hca.ib.lid)
    assert wire.host_of(9) != wire.host_of(pf.hca.ib.lid)


def fail(member, caplog):
    """Let a function fail, as by a bug of the emulator."""
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        member.hca.health.fail()
    caplog.clear()


def test_an_end_port_is_down_until_its_policy_is_set(fresh):
    """As tools expect (``ip link set ib0 vf 0 state auto``)."""
    pf, vf = fresh
    for policy, state in (
        (VportPolicy.FOLLOW, PortState.ACTIVE),
        (VportPolicy.DOWN, PortState.DOWN),
        (VportPolicy.UP, PortState.ACTIVE),
    ):
        set_policy(pf.driver, VF, policy)
        assert vf.hca.ib.state is state
    vf.function.reset()
    assert vf.hca.vhca.hca_vport.policy is VportPolicy.UP, "the physical function's setting"
    pf.function.reset()
    assert vf.hca.vhca.hca_vport.policy is VportPolicy.DOWN


def test_an_end_port_follows_the_physical_port(ib):
    pf, vf = ib
    for up in (False, True):
        lifecycle.set_link(pf.hca, up=up)
        assert pf.hca.ib.is_up is vf.hca.ib.is_up is up
    assert vf.port_events() == [PortChange.DOWN, PortChange.ACTIVE]
    lifecycle.set_admin(vf.hca, up=False)
    assert pf.hca.ib.is_up
    assert not vf.hca.ib.is_up


@pytest.mark.parametrize("policy", [VportPolicy.UP, VportPolicy.FOLLOW])
def test_a_fault_takes_down_the_link_of_an_end_port_alone(fresh, clock, policy):
    pf, vf = fresh
    set_policy(pf.driver, VF, policy)
    vf.port_events()
    injector = Injector(vf.function, sink=lambda _: None)
    vf.function.use_faults(injector)
    injector.load(load('[[rule]]\npoint="load"\naction="link"\nms=5'))
    assert (pf.hca.ib.is_up, vf.hca.ib.is_up) == (True, False)
    clock.advance(5_000_000)
    assert vf.hca.ib.is_up
    assert vf.port_events() == [PortChange.DOWN, PortChange.ACTIVE]


def test_an_end_port_is_down_after_a_recovery_of_the_physical_function(fresh, clock, caplog):
    """Its policy is the one of power-on then, also where it was in INIT meanwhile."""
    pf, vf = fresh
    set_policy(pf.driver, VF, VportPolicy.UP)
    vf.port_events()
    fail(pf, caplog)
    assert vf.hca.ib.state is PortState.INIT
    assert vf.port_events() == [PortChange.DOWN]
    clock.advance(RESTART_NS)
    assert (vf.hca.ib.state, vf.hca.ib.link_downed) == (PortState.DOWN, 1)


@pytest.mark.parametrize("policy", [VportPolicy.UP, VportPolicy.FOLLOW])
def test_the_end_port_of_a_failed_function_is_down(fresh, caplog, policy):
    """Also once its cable, or that of the physical port, is plugged in again."""
    pf, vf = fresh
    set_policy(pf.driver, VF, policy)
    assert vf.hca.link.is_up
    fail(vf, caplog)
    assert not vf.hca.link.is_up
    for one in fresh:
        for up in (False, True):
            lifecycle.set_link(one.hca, up=up)
    assert pf.hca.link.is_up
    assert not vf.hca.link.is_up


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
    """Without cable, no subnet manager activates a vPort whose link is up."""
    pf, vf = ib
    for policy, cable, state in (
        (VportPolicy.DOWN, True, PortState.DOWN), (VportPolicy.DOWN, False, PortState.DOWN),
        (VportPolicy.UP, False, PortState.INIT), (VportPolicy.UP, True, PortState.ACTIVE),
        (VportPolicy.FOLLOW, False, PortState.DOWN), (VportPolicy.FOLLOW, True, PortState.ACTIVE),
    ):  # fmt: skip
        lifecycle.set_link(pf.hca, up=cable)
        set_policy(pf.driver, VF, policy)
        assert vf.hca.ib.is_up is (state is PortState.ACTIVE)
        assert (vf.hca.ib.phys_state is PhysState.LINK_UP) is (state is not PortState.DOWN)
        context = pf.driver.must(Op.QUERY_HCA_VPORT_CONTEXT, **OTHER).hca_vport_context
        assert (context.vport_state_policy, context.port_state) == (policy, state)
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
