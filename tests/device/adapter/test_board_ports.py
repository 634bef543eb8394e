"""The two ports of a board: what their functions have in common, and what each has to itself."""

import pytest
from helpers.device.boards import BOARD_GUID, functions_of_board

from emu.device.adapter.adapter import Adapter
from emu.device.adapter.board import Board
from emu.device.adapter.switch import PlainSwitch
from emu.device.models import LINKS, MODELS
from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.models.sub_functions import with_sub_functions
from emu.device.port.eth.no_wire import NoWire
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.cable import arrive, set_link
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.function.caps import cmd_hca_cap


@pytest.fixture
def functions(clock):
    return functions_of_board([NoWire(), NoWire()], clock)


@pytest.fixture
def drivers(functions):
    found = []
    for function in functions:
        driver = Driver(FunctionBar(function), function.memory, function.interrupts)
        driver.probe()
        driver.create_eq(events=[EventType.PORT_CHANGE])
        found.append(driver)
    return found


def test_they_are_of_one_board(functions, drivers):
    for number, (function, driver) in enumerate(zip(functions, drivers), 1):
        context = driver.must(Op.QUERY_NIC_VPORT_CONTEXT).nic_vport_context
        assert (context.system_image_guid, context.port_guid) == (BOARD_GUID, BOARD_GUID + number)
        caps = cmd_hca_cap.view(driver.must(Op.QUERY_HCA_CAP, op_mod=1).capability)
        assert (caps.native_port_num, caps.vhca_id, caps.num_ports) == (number, number - 1, 1)
        assert function.adapter.serial == f"EMU{BOARD_GUID:016X}"
    one, two = functions
    assert one.adapter.real_time is two.adapter.real_time
    assert one.adapter.board.asic is two.adapter.board.asic


def test_each_is_the_manager_of_its_own_port(functions, drivers):
    set_link(functions[0].hca, up=False)
    assert [function.hca.vport.is_up for function in functions] == [False, True]
    told = [[len([*queue.drain()]) for queue in driver.eqs.values()] for driver in drivers]
    assert [sum(counts) for counts in told] == [1, 0]
    for function in functions:
        assert [*function.adapter.nodes()] == [function.hca]
        assert function.hca.vhca.is_manager
        assert not function.hca.vhca.sees(1)


def test_a_reset_of_one_leaves_the_other(functions, drivers):
    one, two = functions
    before = two.hca
    one.reset()
    assert two.hca is before
    assert before.vport.is_up
    assert not drivers[1].command(Op.QUERY_NIC_VPORT_CONTEXT).status


def test_sub_functions_of_both_have_vhca_ids_of_their_own(clock):
    model = with_sub_functions(MODELS["connectx6dx"], 4)
    functions = functions_of_board([NoWire(), NoWire()], clock, model)
    places = [function.adapter.add(number) for number in (1, 2) for function in functions]
    assert [place.number for place in places] == [2, 3, 4, 5]
    assert [[*function.adapter.vhcas] for function in functions] == [[0, 2, 4], [1, 3, 5]]


def test_a_board_has_two_ports_of_one_model(functions):
    board = functions[0].adapter.board
    model = MODELS["connectx6dx"]
    with pytest.raises(ValueError, match="has only 2 ports"):
        Adapter(model, 1, PlainSwitch(NoWire(), arrive), board)
    other = Board(1, MAX_PORTS)
    Adapter(model, 1, PlainSwitch(NoWire(), arrive), other)
    with pytest.raises(ValueError, match="must have the same model"):
        Adapter(MODELS["connectx7"], 1, PlainSwitch(NoWire(), arrive), other)
    assert [len(found.adapters) for found in (board, other)] == [2, 1]


def test_each_manages_a_switch_and_can_be_in_a_lag_if_the_model_has_one():
    for name, has_one in (("connectx4lx", 0), ("connectx5", 1), ("connectx7", 1)):
        general = with_port(LINKS[name][PortType.ETH], 2).general
        assert general["native_port_num"] == 2
        assert general.get("eswitch_manager", 0) == general.get("lag_master", 0) == has_one


@pytest.mark.parametrize(
    "model", [MODELS["connectx6"], LINKS["connectx6-vf"][PortType.ETH]], ids=["ib", "vf"]
)
def test_whose_port_is_another_ones_or_infiniband_has_no_board_to_share(model):
    with pytest.raises(ValueError, match="only physical functions"):
        with_port(model, 1)
