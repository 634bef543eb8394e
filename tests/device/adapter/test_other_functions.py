"""Commands that the manager of an adapter sends about its other functions, and nobody else."""

import pytest
from helpers.device.adapters import Member, made
from helpers.device.snapshot import snapshot

from emu.device.cmdif.registry import COMMANDS
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import HcaState
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.vport import VportAdminState
from layouts.function.caps import cmd_hca_cap

VPORT = 5
OTHER = {"other_vport": 1, "vport_number": VPORT}
MAC = 0x0200_0000_0005


@pytest.fixture
def members(clock):
    adapter = made(NoWire())
    places = adapter.manager, adapter.add(VPORT)
    return [Member(place, clock) for place in places]


@pytest.fixture
def manager(members):
    return members[0].driver


def test_vport_context(members, manager):
    given = {"mac_addr_47_32": MAC >> 32, "mac_addr_31_0": MAC & 0xFFFFFFFF}
    manager.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"permanent_address": 1},
        nic_vport_context={"permanent_address": given}, **OTHER,
    )  # fmt: skip
    assert members[1].hca.nic_vport.permanent_address == MAC.to_bytes(6, "big")
    assert members[0].hca.nic_vport.permanent_address != MAC.to_bytes(6, "big")
    context = manager.must(Op.QUERY_NIC_VPORT_CONTEXT, **OTHER).nic_vport_context
    assert context.permanent_address.mac_addr_31_0 == MAC & 0xFFFFFFFF
    assert context.port_guid == members[1].hca.options.guid


def test_an_address_that_the_manager_has_given_stays(members, manager):
    given = {"mac_addr_47_32": MAC >> 32, "mac_addr_31_0": MAC & 0xFFFFFFFF}
    for fields in ({}, OTHER):
        manager.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"permanent_address": 1},
            nic_vport_context={"permanent_address": given}, **fields,
        )  # fmt: skip
    for member in members:
        member.function.reset()
    own, others = (member.hca.nic_vport.permanent_address for member in members)
    assert others == MAC.to_bytes(6, "big")
    assert own != others, "its own begins anew"


def test_vport_state(members, manager):
    manager.must(Op.MODIFY_VPORT_STATE, admin_state=VportAdminState.DOWN, **OTHER)
    assert [member.port_events() for member in members] == [[], [PortChange.DOWN]]
    assert manager.must(Op.QUERY_VPORT_STATE, **OTHER).state == 0
    assert manager.must(Op.QUERY_VPORT_STATE).state == 1


def test_the_board_tells_its_manager(members):
    types = [EventType.PORT_MODULE_EVENT, EventType.GENERAL_EVENT]
    eqns = [member.driver.create_eq(events=types) for member in members]
    heard = [len(member.driver.eqs[eqn].drain()) for member, eqn in zip(members, eqns)]
    assert heard == [2, 0]


def test_vport_counters(members, manager):
    vport = members[1].hca.nic_vport
    vport.sent.unicast.packets, vport.steering_discards = 7, 3
    answer = manager.must(Op.QUERY_VPORT_COUNTER, clear=1, **OTHER)
    assert answer.transmitted_eth_unicast.packets == 7
    assert not manager.must(Op.QUERY_VPORT_COUNTER).transmitted_eth_unicast.packets
    own = members[1].driver.must(Op.QUERY_VPORT_COUNTER)
    assert not own.transmitted_eth_unicast.packets
    env = manager.must(Op.QUERY_VNIC_ENV, **OTHER).vport_env
    assert env.nic_receive_steering_discard == 3


def test_capabilities(members, manager):
    page = manager.must(Op.QUERY_HCA_CAP, op_mod=1, other_function=1, function_id=VPORT).capability
    general = cmd_hca_cap.view(page)
    assert (general.vhca_id, general.vport_group_manager) == (1, 0)


def test_capabilities_of_a_function_whose_driver_has_begun(members, manager):
    """As `devlink port function set ... roce` sets them: its driver has to be unbound."""
    name = {"other_function": 1, "function_id": VPORT}
    page = bytearray(manager.must(Op.QUERY_HCA_CAP, **name).capability)
    general = cmd_hca_cap.view(page)
    assert general.roce
    general.roce = 0
    before = snapshot(members[1].hca)
    answer = manager.command(Op.SET_HCA_CAP, capability=bytes(page), **name)
    assert answer.status == Status.BAD_SYS_STATE_ERR
    assert snapshot(members[1].hca) == before
    members[1].driver.must(Op.TEARDOWN_HCA)
    manager.must(Op.SET_HCA_CAP, capability=bytes(page), **name)
    own = members[1].driver.must(Op.QUERY_HCA_CAP).capability
    assert not cmd_hca_cap.view(own).roce


def named():
    """Every command that can name another function, by the fields in which it does."""
    for op, command in COMMANDS.items():
        fields = {field.name for field in command.layout_in.fields}
        ways = (
            OTHER, {"other_function": 1, "function_id": VPORT}, {"function_id": VPORT},
            {"table_of_other_vport": 1, "table_vport_number": VPORT},
        )  # fmt: skip
        way = next((way for way in ways if fields >= way.keys()), None)
        if way is not None:
            yield pytest.param(op, way, id=Op(op).name)


@pytest.mark.parametrize(("op", "way"), [*named()])
def test_others_are_not_for_a_function_that_is_no_manager(members, op, way):
    """A virtual function reaches neither the manager nor itself by such a name."""
    virtual = members[1]
    for number in (0, VPORT):
        numbered = {key: number if value == VPORT else value for key, value in way.items()}
        if numbered == {"function_id": 0}:
            continue
        before = [snapshot(member.hca) for member in members]
        answer = virtual.driver.command(op, **numbered)
        assert answer.status == Status.BAD_PARAM_ERR
        assert [snapshot(member.hca) for member in members] == before


@pytest.mark.parametrize(
    ("op", "way"), [case for case in named() if not COMMANDS[case.values[0]].of_others]
)
def test_what_is_only_about_the_sender(members, manager, op, way):
    """Objects are their maker's: a command that makes one is not carried out for another."""
    before = [snapshot(member.hca) for member in members]
    assert manager.command(op, **way).status == Status.BAD_PARAM_ERR
    assert [snapshot(member.hca) for member in members] == before


@pytest.mark.parametrize("number", [0, VPORT + 1, 0xFFFF])
def test_who_is_not_there(manager, number):
    answer = manager.command(Op.QUERY_VPORT_STATE, other_vport=1, vport_number=number)
    assert answer.status == Status.BAD_PARAM_ERR


def test_a_virtual_function_begins_when_it_is_enabled(members, manager):
    """The manager's driver enables each before it is there (core/sriov.c)."""
    _, other = members
    for _ in range(2):
        manager.must(Op.DISABLE_HCA, function_id=VPORT)
        assert other.hca.state is HcaState.DISABLED
        assert not any(map(len, other.hca.tables))
        other.driver.set_queue()
        assert other.driver.command(Op.ENABLE_HCA).status == Status.BAD_SYS_STATE_ERR
    for _ in range(2):
        manager.must(Op.ENABLE_HCA, function_id=VPORT)
        assert other.hca.state is HcaState.DISABLED, "up to its own driver"
    other.driver.must(Op.ENABLE_HCA)
    manager.must(Op.ENABLE_HCA, function_id=VPORT)
    assert other.hca.state is HcaState.ENABLED, "nothing new to it"


def test_a_reset_of_a_function_leaves_it_enabled_or_disabled(members, manager):
    _, other = members
    for op, may_begin in ((Op.DISABLE_HCA, False), (Op.ENABLE_HCA, True)):
        manager.must(op, function_id=VPORT)
        other.function.reset()
        assert other.hca.vhca.may_begin is may_begin


@pytest.mark.parametrize("op", [Op.ENABLE_HCA, Op.DISABLE_HCA])
def test_who_cannot_be_enabled(members, manager, op):
    _, other = members
    before = [snapshot(member.hca) for member in members]
    for driver, fields in (
        (manager, {"function_id": VPORT + 1}),
        (manager, {"function_id": 0xFFFF}),
        (manager, {"function_id": VPORT, "embedded_cpu_function": 1}),
        (other.driver, {"function_id": VPORT}),
        (other.driver, {"function_id": 1}),
    ):
        assert driver.command(op, **fields).status == Status.BAD_PARAM_ERR
    assert [snapshot(member.hca) for member in members] == before


def test_a_place_without_a_function(members, manager):
    members[0].hca.adapter.add(9)
    answer = manager.command(Op.QUERY_VPORT_STATE, other_vport=1, vport_number=9)
    assert answer.status == Status.BAD_PARAM_ERR
