"""Rules about what passes an embedded switch, and about the states of sub-functions."""

from helpers.device.sub_functions import NUMBER, Manager
from helpers.device.switches import Switch

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.ethernet.frames import EthPacket
from layouts.enums import Op
from layouts.eth_enums import VhcaState

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
