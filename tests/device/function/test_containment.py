"""Mistakes of our own: they stop the function in which they happen, and its driver recovers."""

import pytest

from emu.device.engine import lifecycle
from emu.device.engine.rc import local
from emu.device.engine.rc.packets import connection
from emu.device.engine.ud import datagram
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.function.bar0 import HEALTH_SYNDROME
from emu.device.function.msix import MSIX_PBA
from emu.device.objects.queues.message import MsgOp
from emu.device.objects.queues.qp import Qp
from emu.device.state.containment import RESTART_NS, RESTART_WHEN_SEEN_NS
from emu.device.state.polls import POLLS
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from layouts.enums.hca import HealthSyndrome, NicInterface
from layouts.enums.qp import QpState, QpType

SECOND = 1_000_000_000


class Mistake(Exception):  # noqa: N818  # what it is
    """Nobody expects it."""


@pytest.fixture
def blunder(monkeypatch):
    """Replaces a function of a module, or in a table, by one that raises for one PCI function."""

    def arrange(module, name, victim):
        is_table = isinstance(module, dict)
        original = module[name] if is_table else getattr(module, name)

        def mistaken(hca, *args, **options):
            if hca is victim.hca and not hca.health.has_failed:
                raise Mistake(name)
            return original(hca, *args, **options)

        (monkeypatch.setitem if is_table else monkeypatch.setattr)(module, name, mistaken)

    return arrange


@pytest.fixture
def told(caplog):
    """Checks that one traceback was logged, and clears the log."""

    def check():
        records = [record for record in caplog.records if record.exc_info]
        assert [record.exc_info[0] for record in records] == [Mistake]
        caplog.clear()

    return check


def syndrome(node):
    return node.driver.read32(HEALTH_SYNDROME - 1) >> 16 & 0xFF


def nic_interface(node):
    return NicInterface(node.driver.read32(0x14) >> 8 & 7)


def assert_down(node):
    """As the driver's health poll sees it: a syndrome, and the request for a reset."""
    assert node.driver.read32(0x238) >> 31 == 1
    assert syndrome(node) == HealthSyndrome.FW_INTERNAL_ERR


def assert_recovers(node, clock):
    """The driver has looked; it then waits for the sign of firmware that has started anew."""
    assert nic_interface(node) == NicInterface.FULL_DRIVER
    clock.advance(RESTART_WHEN_SEEN_NS)
    assert nic_interface(node) == NicInterface.DISABLED
    assert not syndrome(node)
    node.driver.probe()


def traffic(left, right):
    """Whether a message gets from one to the other."""
    channel = Channel(QpType.RC, left, right)
    source, target = left.region(64), right.region(64)
    channel.post_recv(target.sge())
    channel.send(source.sge())
    channel.settle()
    return bool(channel.received())


def test_turn(pair, blunder, told, clock):
    left, right = pair
    qp = left.queue_pair().init().to_rtr(left.lid, 0).to_rts()
    blunder(POLLS, Qp, left.function)
    qp.post(0)
    left.settle()
    told()
    assert_down(left)
    assert traffic(right, right)
    assert_recovers(left, clock)


@pytest.mark.parametrize(
    ("part", "method", "access"),
    [
        ("bar0", "read", lambda function: function.bar_read(0, 0, 4)),
        ("bar0", "write", lambda function: function.bar_write(0, 0x14, bytes(4))),
        ("interrupts", "pending", lambda function: function.bar_read(0, MSIX_PBA, 8)),
        ("config", "read", lambda function: function.config_read(0, 4)),
        ("config", "write", lambda function: function.config_write(4, bytes(2))),
    ],
    ids=["BAR read", "BAR write", "PBA read", "config read", "config write"],
)
def test_access(pair, told, clock, monkeypatch, part, method, access):
    """What goes wrong while the driver accesses the function; a read is answered all the same."""
    left, right = pair

    def mistaken(*_args):
        monkeypatch.undo()
        raise Mistake(method)

    monkeypatch.setattr(getattr(left.function, part), method, mistaken)
    answer = access(left.function)
    assert not answer or set(answer) == {0xFF}
    told()
    assert_down(left)
    assert not syndrome(right)
    assert traffic(right, right)
    assert_recovers(left, clock)


def test_device_reset(pair, told, clock, monkeypatch):
    left, right = pair

    def mistaken(*_args):
        monkeypatch.undo()
        raise Mistake

    monkeypatch.setattr(lifecycle, "quiesce", mistaken)
    left.function.reset()
    told()
    left.function.config_write(4, b"\x06\0")
    assert_down(left)
    assert traffic(right, right)
    assert_recovers(left, clock)


def test_timer(pair, blunder, told, clock):
    left, right = pair
    left.hca.clock.call_later(SECOND, lambda: POLLS[Qp](left.hca, None))
    blunder(POLLS, Qp, left.function)
    clock.advance(SECOND)
    told()
    assert_down(left)
    assert traffic(right, right)
    assert_recovers(left, clock)


def test_peer_in_the_process(pair, blunder, told, clock):
    """What goes wrong at the receiver is the receiver's; the sender finds nobody there."""
    left, right = pair
    channel = Channel(QpType.RC, left, right)
    blunder(local.RESPOND, MsgOp.SEND, right.function)
    channel.send(left.region(64).sge())
    channel.settle()
    told()
    assert_down(right)
    assert not syndrome(left)
    assert traffic(left, left)
    assert channel.sender.state is QpState.RTS
    assert_recovers(right, clock)


def test_datagram(pair, blunder, told):
    left, right = pair
    channel = Channel(QpType.UD, left, right)
    blunder(datagram, "receive", right.function)
    channel.send(left.region(64).sge())
    channel.settle()
    told()
    assert_down(right)
    assert traffic(left, left)


def test_packet(packet_pair, blunder, told):
    left, right = packet_pair
    channel = Channel(QpType.RC, left, right)
    blunder(connection, "take", right.function)
    channel.send(left.region(64).sge())
    channel.settle()
    told()
    assert_down(right)
    assert traffic(left, left)


def test_held_up_by_a_peer_that_fails(pair, blunder, told, clock):
    """A requester whose peer waits for a page goes on when there is no peer any more."""
    left, right = pair
    channel = Channel(QpType.RC, left, right, retry_count=1, ack_timeout=8)
    target = PagedRegion(Pager(right), 4096)
    channel.write((target.key, target.va), left.region(64).sge())
    channel.settle()
    right.hca.clock.call_later(0, lambda: POLLS[Qp](right.hca, None))
    blunder(POLLS, Qp, right.function)
    clock.advance(0)
    told()
    for _ in range(4):
        clock.advance(SECOND)
        left.settle()
    assert channel.sender.state is QpState.ERR


@pytest.fixture
def failed(pair, blunder, told):
    """A function that has failed, and has a peer."""
    left, _ = pair
    qp = left.queue_pair().init().to_rtr(left.lid, 0).to_rts()
    blunder(POLLS, Qp, left.function)
    qp.post(0)
    left.settle()
    told()
    return left


def test_starts_anew_though_nobody_looks(failed, clock):
    clock.advance(RESTART_NS - 1)
    assert failed.function.hca.health.has_failed
    clock.advance(1)
    assert not failed.function.hca.health.has_failed
    failed.driver.probe()


def test_looking_again_does_not_put_it_off(failed, clock):
    for _ in range(5):
        assert syndrome(failed)
        clock.advance(RESTART_WHEN_SEEN_NS // 5)
    assert not syndrome(failed)


@pytest.mark.parametrize("reset", ["reset", "_on_flr"])
def test_reset_comes_first(failed, clock, reset):
    getattr(failed.function, reset)()
    hca = failed.function.hca
    failed.function.config_write(4, (6).to_bytes(2, "little"))  # memory space, bus master
    assert not syndrome(failed)
    failed.driver.probe()
    clock.advance(RESTART_NS)
    assert failed.function.hca is hca


def test_doorbells_and_commands_of_a_driver_that_does_not_know_yet(failed, caplog):
    queue = failed.driver.read32(0x10), failed.driver.read32(0x14)
    failed.driver.write32(0x18, 1)
    failed.driver.bar.write(0x8800, bytes(8))
    failed.driver.write32(0x14, 1 << 8)
    failed.settle()
    assert (failed.driver.read32(0x10), failed.driver.read32(0x14)) == queue
    assert not caplog.messages


def test_second_mistake_on_the_way_down_is_the_same_failure(pair, monkeypatch, caplog):
    left, right = pair

    def mistaken(*_):
        raise Mistake

    monkeypatch.setattr(lifecycle, "quiesce", mistaken)
    monkeypatch.setitem(POLLS, Qp, mistaken)
    qp = left.queue_pair().init().to_rtr(left.lid, 0).to_rts()
    qp.post(0)
    left.settle()
    caplog.clear()
    monkeypatch.undo()
    assert_down(left)
    assert left.hca.health.internal_errors == 1
    assert traffic(right, right)


def test_it_fails_once(pair, caplog):
    left, _ = pair
    left.hca.health.fail()
    left.hca.health.fail()
    assert left.hca.health.internal_errors == 1
    caplog.clear()


def test_faults_strike_a_function_that_has_started_anew(failed, clock):
    """Rules outlast it, as they outlast a reset."""
    injector = Injector(failed.function)
    failed.function.use_faults(injector)
    injector.load(load('[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "ALLOC_PD"\n'))
    clock.advance(RESTART_NS)
    assert failed.function.hca.probes.faults is injector
    failed.function.use_faults(injector)


def test_timers_of_a_function_that_has_failed(pair, blunder, told, clock):
    left, _ = pair
    calls = []
    left.hca.clock.call_later(1, lambda: POLLS[Qp](left.hca, None))
    left.hca.clock.call_later(1, lambda: calls.append(1))
    blunder(POLLS, Qp, left.function)
    clock.advance(1)
    told()
    assert calls == []
