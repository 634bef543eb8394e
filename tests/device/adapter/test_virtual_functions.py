"""Virtual functions of a physical one: their start and their end."""

import pytest
from helpers.device.adapters import Member, made, made_infiniband, made_with_switch, set_policy

from emu.device.engine import lifecycle
from emu.device.engine.events import board
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.containment import RESTART_NS
from emu.device.state.hca import HcaState
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.server.net.ib.local import LocalFabric
from layouts.enums.caps import CapType, PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType
from layouts.enums.hca import TeardownProfile
from layouts.function.caps import cmd_hca_cap

VF = 2


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


def test_a_virtual_function_waits_until_it_is_enabled(clock):
    adapter = made(NoWire())
    pf, vhca = Member(adapter.manager, clock), adapter.add(1)
    assert vhca.is_virtual
    assert not vhca.may_begin
    vf = Member(vhca, clock)
    pf.driver.must(Op.DISABLE_HCA, function_id=1)
    vf.function.reset()
    driver = Driver(FunctionBar(vf.function), vf.memory, vf.driver.irqs)
    driver.set_queue()
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
    vf.driver.set_queue()
    assert vf.driver.command(Op.ENABLE_HCA).status == Status.BAD_SYS_STATE_ERR


def test_a_failure_of_the_physical_function_is_its_own(members, clock, caplog):
    """Its driver recovers and enables them again (core/sriov.c: mlx5_sriov_attach)."""
    pf, vf = members
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        pf.hca.health.fail()
    caplog.clear()
    vf.driver.must(Op.ALLOC_PD)
    clock.advance(RESTART_NS)
    driver = Driver(FunctionBar(pf.function), pf.memory, pf.driver.irqs).probe()
    driver.must(Op.ENABLE_HCA, function_id=VF)
    if vf.hca.model.port_type is PortType.IB:
        assert not vf.hca.vport.is_up, "its policy is the one of power-on"
        set_policy(driver, VF)
    assert vf.hca.state is HcaState.INITIALIZED
    assert vf.hca.vport.is_up
    vf.driver.must(Op.ALLOC_PD)


def test_a_function_that_has_failed_reports_no_event(members, caplog):
    """Of the cable, the board, the subnet: nobody has written to its queues since the failure."""
    pf, _ = members
    events = EventType.PORT_CHANGE, EventType.PORT_MODULE_EVENT, EventType.TEMP_WARN_EVENT
    eq = pf.driver.eqs[pf.driver.create_eq(events=events)]
    lifecycle.set_link(pf.hca, up=False)
    lifecycle.set_link(pf.hca, up=True)
    assert {EventType.PORT_CHANGE, EventType.PORT_MODULE_EVENT} <= {one.type for one in eq.drain()}
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        pf.hca.health.fail()
    caplog.clear()
    lifecycle.set_link(pf.hca, up=False)
    board.warm(pf.hca.adapter, pf.hca.adapter.board.asic.threshold)
    lifecycle.reregister(pf.hca.events)
    assert not eq.drain()


def test_a_reset_of_a_virtual_function_is_its_own(members):
    pf, vf = members
    if vf.hca.model.port_type is PortType.IB:
        set_policy(pf.driver, VF)
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


def test_a_group_that_the_manager_turns_off_after_it_has_set_it(members):
    """A reset sets both groups again."""
    pf, vf = members
    vf.driver.must(Op.TEARDOWN_HCA)
    other = {"other_function": 1, "function_id": VF}
    pages = {
        group: bytearray(pf.driver.must(Op.QUERY_HCA_CAP, op_mod=group << 1, **other).capability)
        for group in (CapType.GENERAL, CapType.ATOMIC)
    }

    def grant(group):
        op_mod = group << 1
        pf.driver.must(Op.SET_HCA_CAP, op_mod=op_mod, capability=bytes(pages[group]), **other)

    grant(CapType.GENERAL)
    grant(CapType.ATOMIC)
    cmd_hca_cap.view(pages[CapType.GENERAL]).atomic = 0
    grant(CapType.GENERAL)
    vf.function.reset()
    assert not vf.hca.health.has_failed
    assert not vf.hca.caps.has(CapType.ATOMIC)
