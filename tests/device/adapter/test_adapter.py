"""An adapter and its functions: who is who, and what they share."""

import pytest
from helpers.device.adapters import GUID, PF, Member, made

from emu.device.adapter.adapter import MAX_VHCAS
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.port.eth.no_wire import NoWire
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.world.cable import set_link
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.cmd import Op
from layouts.enums.eqe import PortChange
from layouts.enums.regs import PortStatus, RegId
from layouts.enums.vport import VportAdminState
from layouts.function.caps import cmd_hca_cap
from layouts.regs import reg


@pytest.fixture
def adapter():
    return made(NoWire())


@pytest.fixture
def members(adapter, clock):
    places = adapter.manager, adapter.add(1)
    return [Member(place, clock) for place in places]


def test_each_function_has_its_ids(adapter, members):
    for number, member in enumerate(members):
        for mode in (0, 1):
            page = member.driver.must(Op.QUERY_HCA_CAP, op_mod=mode).capability
            assert cmd_hca_cap.view(page).vhca_id == number
        vhca = member.hca.vhca
        assert (vhca.number, vhca.vport_number, vhca.is_manager) == (number, number, not number)
    assert [*adapter.nodes()] == [member.hca for member in members]


def test_functions_are_of_one_board(adapter, members):
    for number, member in enumerate(members):
        context = member.driver.must(Op.QUERY_NIC_VPORT_CONTEXT).nic_vport_context
        assert context.system_image_guid == GUID
        assert context.port_guid == GUID + number + 1
    assert adapter.firmware == PF.firmware
    assert adapter.serial == f"EMU{GUID:016X}"


def test_they_share_the_port(adapter, members):
    one, two = members
    assert adapter.ports == [one.hca.port]
    assert two.hca.port is one.hca.port
    assert two.hca.vport is not one.hca.vport
    mtu = reg.pmtu_reg.new(local_port=1, admin_mtu=9000)
    one.driver.write_register(RegId.PMTU, bytes(mtu))
    assert two.hca.nic_vport.oper_mtu == 9000
    two.driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"mtu": 1}, nic_vport_context={"mtu": 1500}
    )
    assert [member.hca.nic_vport.oper_mtu for member in members] == [9000, 1500]


def test_a_cable_is_pulled_for_all(members):
    for up, change in ((False, PortChange.DOWN), (True, PortChange.ACTIVE)):
        set_link(members[1].hca, up=up)
        assert [member.port_events() for member in members] == [[change]] * 2
        states = [member.driver.must(Op.QUERY_VPORT_STATE).state for member in members]
        assert states == [up] * 2


def test_a_disabled_port_is_for_all(members):
    data = reg.paos_reg.new(local_port=1, admin_status=PortStatus.DOWN, ase=1)
    members[0].driver.write_register(RegId.PAOS, bytes(data))
    assert [member.port_events() for member in members] == [[PortChange.DOWN]] * 2


def test_a_function_behind_the_switch_disables_the_port_in_vain(members):
    """Its driver tries it whenever its interface begins (core/en_main.c: mlx5e_nic_enable)."""
    data = reg.paos_reg.new(local_port=1, admin_status=PortStatus.DOWN, ase=1)
    assert members[1].driver.write_register(RegId.PAOS, bytes(data)).status == 0
    assert [member.port_events() for member in members] == [[], []]
    assert members[0].hca.eth.is_up


def test_a_vport_is_disabled_alone(members):
    members[1].driver.must(Op.MODIFY_VPORT_STATE, admin_state=VportAdminState.DOWN)
    assert [member.port_events() for member in members] == [[], [PortChange.DOWN]]
    assert [member.hca.vport.is_up for member in members] == [True, False]


def request_mtu(member, mtu):
    data = reg.pmtu_reg.new(local_port=1, admin_mtu=mtu)
    assert member.driver.write_register(RegId.PMTU, bytes(data)).status == 0


def test_the_port_goes_on_while_a_function_is_reset(adapter, members):
    one, two = members
    port = one.hca.port
    request_mtu(one, 9000)
    before = two.hca
    two.function.reset()
    assert two.hca is not before
    assert [*adapter.nodes()] == [one.hca, two.hca]
    assert two.hca.port is one.hca.port is port
    assert port.admin_mtu == 9000


def test_the_port_starts_anew_with_its_manager(members):
    """Its reset has ended the virtual functions."""
    one, two = members
    port, before = one.hca.port, two.hca
    request_mtu(one, 9000)
    one.function.reset()
    assert one.hca.port is two.hca.port is not port
    assert one.hca.port.admin_mtu == 1522
    assert two.hca is not before
    assert two.hca.nic_vport.sent.qos is one.hca.eth.qos


def test_the_mtu_of_the_port_is_the_largest_requested(members):
    """A virtual function's driver starts with 1500 while the physical one's has set 9000."""
    one, two = members
    port = one.hca.eth
    for member, mtu, port_mtu in (
        (one, 9000, 9000), (two, 1522, 9000), (two, 9500, 9500), (one, 1522, 9500),
        (two, 1522, 1522), (two, 9600, 9600),
    ):  # fmt: skip
        request_mtu(member, mtu)
        assert port.admin_mtu == port_mtu
    two.function.reset()
    assert port.admin_mtu == 1522


def test_the_only_functions_port_starts_anew_with_it(function):
    port = function.hca.port
    function.hca.port.set_link(up=False)
    function.reset()
    assert function.hca.port is not port
    assert function.hca.port.is_up
    assert function.adapter.ports == [function.hca.port]


def test_a_function_that_fails_leaves_the_port_to_the_others(members, caplog):
    one, two = members
    try:
        raise RuntimeError("planned")
    except RuntimeError:
        two.hca.health.fail()
    caplog.clear()
    assert one.hca.vport.is_up
    assert not two.hca.vport.is_up


@pytest.mark.parametrize("name", ["connectx6", "connectx6dx", "connectx5-vf"])
def test_a_function_is_an_adapter_of_its_own(name, clock):
    function = Function(
        MODELS[name], HcaOptions(guid=GUID), TABLE, Memory(), IrqList(), clock, LocalFabric(clock)
    )
    FunctionBar(function)
    adapter = function.adapter
    assert [*adapter.nodes()] == [function.hca]
    assert (adapter.guid, adapter.ports) == (GUID, [function.hca.port])
    assert function.hca.caps.general.vhca_id == 0


def test_places_come_and_go(adapter):
    one, two = adapter.add(5), adapter.add(9)
    assert [(place.number, place.vport_number) for place in (one, two)] == [(1, 5), (2, 9)]
    assert adapter.by_vport(9) is two
    with pytest.raises(ValueError, match="vPort 9"):
        adapter.add(9)
    adapter.remove(one)
    assert adapter.by_vport(5) is None
    assert adapter.add(7).number == 1


def test_places_are_bounded(adapter):
    for number in range(1, MAX_VHCAS):
        adapter.add(number)
    with pytest.raises(ValueError, match="board already has"):
        adapter.add(MAX_VHCAS)


def test_only_the_manager_names_others(adapter, members):
    one, two = members
    assert one.hca.vhca.other(1) is two.hca
    assert one.hca.vhca.other(0) is None
    assert one.hca.vhca.other(2) is None
    assert two.hca.vhca.other(0) is None
    adapter.add(2)
    assert one.hca.vhca.other(2) is None
