"""Rules about what passes an embedded switch or a LAG, and about the states of sub-functions."""

import pytest
from helpers.device.boards import remap
from helpers.device.shared_fdb import SharedBoard, queue, send
from helpers.device.sub_functions import NUMBER, Manager
from helpers.device.switches import Switch

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op
from layouts.enums.hca import VhcaState

MS = 1_000_000
FRAME = EthPacket(payload=bytes(64)).frame()


def rules(function, text):
    """Loads one rule's lines; returns the injector, and the list of the faults that fire."""
    fired = []
    injector = Injector(function, sink=fired.append)
    function.use_faults(injector)
    injector.load(load(f"[[rule]]\n{text}"))
    return injector, fired


def test_a_packet_misses_the_forwarding_database(clock):
    switch = Switch(clock)
    switch.entry()
    _, fired = rules(switch.manager.function, 'point="fdb"\naction="miss"\nmatch.vport=0\nindex=2')
    passed = [switch.passes(FRAME) for _ in range(3)]
    assert passed == [[FRAME], [], [FRAME]]
    assert len(fired) == 1


class SecondPort:
    """The master of a LAG, with a send queue whose frames leave by the other port."""

    def __init__(self, clock):
        board = SharedBoard(clock)
        self.ports, self.master = board.ports, board.first.manager
        self.other = board.second.manager
        board.first.driver.must(Op.CREATE_LAG, ctx=remap(1, 2))
        self.sq = queue(self.master, lag_tx_port_affinity=2)

    def counted(self):
        return [port.adapter.port_traffic()[0].packets for port in self.ports]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ('point="cmd"\naction="drop"\nmatch.op="DESTROY_QP"', 4),
        ('point="frame.tx"\naction="drop"\nindex=2', 3),
        ('point="frame.tx"\naction="delay"\nms=1', 4),
        ('point="frame.tx"\naction="duplicate"\nindex=2', 5),
        ('point="frame.tx"\naction="reorder"\nindex=2', 4),
        ('point="frame.tx"\naction="corrupt"', 4),
        ('point="frame.tx"\naction="replace"\ndata="ff"', 4),
    ],
    ids=lambda value: value.split("action=")[1].split('"')[1] if isinstance(value, str) else "",
)
def test_frames_of_a_lag_keep_their_port(clock, rule, left):
    """The port counts what the function has sent, as without a LAG."""
    lag = SecondPort(clock)
    rules(lag.master.function, rule)
    for _ in range(4):
        send(lag.master, lag.sq)
    clock.advance(MS)
    assert [port.sent() for port in lag.ports] == [0, left]
    assert lag.counted() == [0, 4]


def test_a_delayed_frame_of_a_lag_leaves_by_a_port_whose_function_was_reset(clock):
    lag = SecondPort(clock)
    injector, _ = rules(lag.master.function, 'point="frame.tx"\naction="delay"\nms=1')
    send(lag.master, lag.sq)
    lag.other.function.reset()
    assert injector.held == 1
    clock.advance(MS)
    assert [port.sent() for port in lag.ports] == [0, 1]


def test_a_sub_function_stays_in_its_state(clock):
    manager = Manager(clock)
    manager.arm()
    rules(manager.function, 'point="vhca_state"\naction="drop"\nmatch.state="ACTIVE"\nindex=1')
    manager.active()
    assert manager.state() is VhcaState.ALLOCATED
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    assert manager.state() is VhcaState.ACTIVE


def test_a_state_comes_later_or_never(clock):
    manager = Manager(clock)
    rules(manager.function, 'point="vhca_state"\naction="delay"\nms=5\nmatch.state="ACTIVE"')
    manager.active()
    assert manager.state() is VhcaState.ALLOCATED
    clock.advance(6 * MS)
    assert manager.state() is VhcaState.ACTIVE
    manager.driver.must(Op.DISABLE_HCA, function_id=NUMBER)
    manager.driver.must(Op.ENABLE_HCA, function_id=NUMBER)
    manager.driver.must(Op.DEALLOC_SF, function_id=NUMBER)
    clock.advance(6 * MS)
    assert manager.state() is VhcaState.INVALID, "that function has gone"


def test_no_state_comes_after_a_reset(clock):
    manager = Manager(clock)
    injector, _ = rules(manager.function, 'point="vhca_state"\naction="delay"\nms=5')
    manager.active()
    assert injector.held == 1
    manager.function.reset()
    assert not injector.held
    manager.probe()
    manager.driver.must(Op.ALLOC_SF, function_id=NUMBER)
    clock.advance(6 * MS)
    assert manager.state() is VhcaState.ALLOCATED
