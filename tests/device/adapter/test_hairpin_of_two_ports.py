"""Hairpins between the functions of a board: what one receives leaves by the other's port."""

import pytest
from helpers.device.boards import functions_of_board
from helpers.device.sub_functions import NUMBER, Manager

from emu.device.port.eth.frame import Frame
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.hairpin import HairpinPair, sender_of
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.world.cable import arrive
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op, Status
from layouts.enums.wq import SqState

FRAME = EthPacket(payload=bytes(range(200))).frame()


@pytest.fixture
def wires():
    return [TapWire(), TapWire()]


@pytest.fixture
def functions(wires, clock):
    return functions_of_board(wires, clock)


@pytest.fixture
def drivers(functions):
    one, two = functions
    bars = (FunctionBar(one, two), FunctionBar(two, one))
    found = [
        Driver(bar, function.memory, function.interrupts) for bar, function in zip(bars, functions)
    ]
    for driver in found:
        driver.probe()
    return found


def paired(one, other, vhcas):
    """A pair, and a table of ``one`` that leads all packets to it."""
    pair = HairpinPair(one, other, vhcas)
    flows = Flows(one)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(one, alloc_td(one), pair.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    return pair


@pytest.fixture
def pair(drivers):
    one, other = drivers
    return paired(one, other, (0, 1))


def passed(functions, drivers, wires, at=0, left=1):
    arrive(functions[at].hca, Frame(FRAME))
    drivers[0].bar.settle()
    return [frame.data for frame in wires[left].sent()]


def test_packets_leave_by_the_other_port(functions, drivers, wires, pair):
    assert passed(functions, drivers, wires) == [FRAME]
    assert not wires[0].sent()
    assert functions[1].hca.nic_vport.sent.unicast.packets == 1
    assert functions[0].hca.nic_vport.received.unicast.packets == 1


def test_both_ways(functions, drivers, wires, pair):
    paired(drivers[1], drivers[0], (1, 0))
    assert passed(functions, drivers, wires) == [FRAME]
    assert passed(functions, drivers, wires, at=1, left=0) == [FRAME]


@pytest.mark.hostile
def test_ports_that_are_cabled_to_each_other_are_a_loop_of_turns(functions, drivers, wires, pair):
    """A packet that goes round and round: nothing else is kept from its turn."""
    paired(drivers[1], drivers[0], (1, 0))
    arrive(functions[0].hca, Frame(FRAME))
    for _ in range(50):
        for function, wire in zip(functions, reversed(wires)):
            function.run()
            for frame in wire.sent():
                arrive(function.hca, frame)
    assert sum(function.hca.nic_vport.sent.unicast.packets for function in functions) <= 51


@pytest.mark.parametrize("end", ["reset", "teardown", "destroyed"])
def test_the_sender_is_gone_first(functions, drivers, wires, pair, end):
    """As mlx5_core_hairpin_clear_dead_peer leaves it: the receiver drops, until it is unpaired."""
    if end == "reset":
        functions[1].reset()
    elif end == "teardown":
        drivers[1].must(Op.TEARDOWN_HCA)
    else:
        pair.stop_sending()
        drivers[1].must(Op.DESTROY_SQ, sqn=pair.sqn)
    assert not passed(functions, drivers, wires)
    pair.stop_receiving()


def test_the_receiver_is_gone_first(functions, drivers, wires, pair):
    functions[0].reset()
    drivers[1].bar.settle()
    assert not wires[1].sent()
    pair.stop_sending()
    drivers[1].must(Op.DESTROY_SQ, sqn=pair.sqn)


@pytest.mark.parametrize("gone", ["sender", "receiver"])
def test_the_peers_function_is_removed(clock, gone):
    """A sub-function that ends first; the other queue is polled."""
    manager = Manager(clock).active()
    driver, other = manager.driver, manager.driver_of()
    number = manager.hca.adapter.by_vport(NUMBER).number
    if gone == "sender":
        paired(driver, other, (0, number))
    else:
        pair = HairpinPair(other, driver, (number, 0))
    driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    other.remove()
    driver.must(Op.DEALLOC_SF, function_id=NUMBER)
    if gone == "sender":
        arrive(manager.hca, Frame(FRAME))
        assert manager.hca.nic_vport.received.unicast.packets == 1
    else:
        driver.must(Op.MODIFY_SQ, sqn=pair.sqn, **sender_of(0, 0, SqState.RDY))
    driver.bar.settle()
    assert not manager.wire.sent()


@pytest.mark.hostile
def test_a_pair_is_one_only_if_both_say_so(drivers, functions, wires, pair):
    """Another queue of the peer's function that names a queue does not get what that receives."""
    second = HairpinPair(drivers[0], drivers[1], (0, 1))
    second.stop_sending()
    answer = drivers[1].command(Op.MODIFY_SQ, sqn=second.sqn, **sender_of(pair.rqn, 0))
    assert answer.status == Status.BAD_RES_STATE_ERR
    pair.stop_sending()
    assert not passed(functions, drivers, wires)
