"""A function, a queue or a key ends, and much waits for it: some of that in each round."""

import pytest

from emu.device.cmdif.registry import COMMANDS
from emu.device.engine import lifecycle
from emu.device.engine.mr import page_faults
from emu.device.objects import deferred_free
from emu.device.rounds.sizes import COST_OF_ENDING
from emu.driver.command.words import pack64
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.connect import connect
from emu.driver.verbs.dynamic import Initiator, Target
from layouts.enums.cmd import Op
from layouts.enums.hca import TeardownProfile
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState

pytestmark = pytest.mark.hostile

COUNT = 20
A_ROUND = 4
"""Queue pairs that end in each round of these tests."""
MINUTE = 60_000_000_000


@pytest.fixture
def node(pair):
    return pair[0]


@pytest.fixture
def small_rounds(monkeypatch):
    monkeypatch.setattr(deferred_free, "FREED_PER_ROUND", A_ROUND * COST_OF_ENDING)


def command(op, **fields):
    return bytes(COMMANDS[op].layout_in.new(opcode=op, **fields).buf)


def started(node, lid):
    qp = node.queue_pair()
    return qp.init().to_rtr(lid, qpn=0x1234).to_rts()


def run_dry(function):
    rounds = 0
    while function.run():
        rounds += 1
    return rounds


@pytest.mark.usefixtures("small_rounds")
def test_queue_pairs_that_wait_for_their_receivers(pair, clock):
    """None of their timers acts from the reset on, although most still run."""
    node, other = pair
    for _ in range(COUNT):
        one, two = node.queue_pair(), other.queue_pair()
        connect(one, two)
        one.send(b"x")
    node.settle()
    waiting = list(node.hca.qps)
    assert all(qp.timer for qp in waiting)
    node.function.reset()
    assert all(qp.timer for qp in waiting)
    before = node.memory.contents()
    clock.advance(MINUTE)
    assert node.memory.contents() == before
    left, rounds = COUNT, 0
    while node.function.run():
        now = sum(qp.timer is not None for qp in waiting)
        assert left - now <= A_ROUND
        left, rounds = now, rounds + 1
    assert rounds >= COUNT / A_ROUND
    assert not any(qp.timer for qp in waiting)
    assert all(qp.state is QpState.RST for qp in waiting)


@pytest.mark.usefixtures("small_rounds")
def test_connections_that_wait_for_acknowledgements(packet_pair, clock):
    node, other = packet_pair
    region = node.region(64)
    for _ in range(COUNT):
        started(node, other.lid).write((1, 0), region.sge())
    node.settle()
    waiting = list(node.hca.qps)
    assert all(qp.connection for qp in waiting)
    node.driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.FORCE_CLOSE)
    before = node.memory.contents()
    clock.advance(MINUTE)
    node.settle()
    assert node.memory.contents() == before
    assert not any(qp.connection for qp in waiting)


@pytest.mark.usefixtures("small_rounds")
def test_messages_under_way_are_let_go_at_once(pair):
    """Messages have views of guest memory, which a client that goes takes away next."""
    node, other = pair
    length = 6 << 20
    source, target = node.region(length), other.region(length)
    for _ in range(COUNT):
        one, two = node.queue_pair(), other.queue_pair()
        connect(one, two)
        one.write((target.key, target.va), source.sge())
    node.function.run()
    moving = [qp for qp in node.hca.qps if qp.moving is not None]
    assert moving
    node.function.reset()
    assert not any(qp.moving for qp in moving)


@pytest.mark.usefixtures("small_rounds")
def test_responders_of_a_target(pair):
    """Senders of another function go on."""
    left, right = pair
    target, region = Target(right), right.region(64)
    initiators = [Initiator(left, target) for _ in range(COUNT)]
    for initiator in initiators:
        initiator.write((region.key, region.va), b"x")
    left.settle()
    (dct,) = right.hca.dcts
    assert len(dct.responders) == COUNT
    right.function.reset()
    assert len(dct.responders) == COUNT
    right.function.run()
    assert len(dct.responders) == COUNT - A_ROUND
    run_dry(right.function)
    assert not dct.responders
    assert not any(qp.responder for qp in left.hca.qps)


def absent(node, count, log_size=8):
    """Queue pairs each of which waits for a page."""
    pager = Pager(node, log_size=log_size)
    region = PagedRegion(pager, 4096)
    qps = [started(node, node.lid) for _ in range(count)]
    for qp in qps:
        qp.write((1, 0), region.sge(0, 64))
    node.settle()
    assert len(node.hca.page_faults) == count
    return pager, qps


@pytest.mark.usefixtures("small_rounds")
def test_page_faults_of_a_function_that_is_reset(node):
    absent(node, COUNT)
    old = node.hca
    faults = old.page_faults.open()
    node.function.reset()
    assert all(fault.is_open for fault in faults)
    node.function.run()
    assert sum(fault.is_open for fault in faults) == COUNT - A_ROUND
    run_dry(node.function)
    assert not any(fault.is_open for fault in faults)
    assert not old.ledger.accounts.get("page fault", 0)


def test_page_faults_that_nobody_is_told_of(node, monkeypatch):
    """DESTROY_EQ fails them in portions, and is over when all have failed."""
    monkeypatch.setattr(page_faults, "FAULTS_PER_PORTION", A_ROUND)
    pager, qps = absent(node, COUNT)
    blocks = node.driver.submit(command(Op.DESTROY_EQ, eq_number=pager.eqn), 16)
    node.driver.bar.write(0x18, (1).to_bytes(4, "big"))
    left = COUNT
    while node.function.run():
        now = len(node.hca.page_faults)
        assert left - now <= A_ROUND
        left = now
    assert not left
    assert not node.driver.collect(blocks, 16)[1][0]
    assert all(qp.state is QpState.ERR for qp in qps)


def test_page_faults_for_which_a_full_queue_gets_room(node, clock, monkeypatch):
    """Their events are posted a share at a time."""
    monkeypatch.setattr(page_faults, "EVENTS_PER_POLL", A_ROUND)
    pager, _ = absent(node, COUNT, log_size=3)
    unreported = node.hca.page_faults.unreported
    told = [COUNT - len(unreported)]
    while unreported:
        before = len(unreported)
        pager.faults()
        clock.advance(page_faults.FULL_QUEUE_NS)
        told.append(before - len(unreported))
        assert told[-1] <= 8
    assert sum(told) == COUNT


def long_key(node, entries):
    pages = pack64([node.driver.queue, node.driver.queue + 8192]) * (entries // 2)
    entry = {
        "pd": node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "lr": 1,
        "log_page_size": 12, "len": entries << 12, "translations_octword_size": entries // 2,
    }  # fmt: skip
    answer = node.driver.must(
        Op.CREATE_MKEY, memory_key_mkey_entry=entry,
        translations_octword_actual_size=entries // 2, extra=pages,
    )  # fmt: skip
    return answer.mkey_index


def test_long_lists_that_are_freed_count_among_the_steps(node):
    """DESTROY_MKEY in eight slots at once: what it frees ends the round."""
    indexes = [long_key(node, 1 << 16) for _ in range(8)]
    for slot, index in enumerate(indexes):
        node.driver.submit(command(Op.DESTROY_MKEY, mkey_index=index), 16, slot)
    node.driver.bar.write(0x18, (0xFF).to_bytes(4, "big"))
    node.function.run()
    assert node.hca.budget.steps >= 8 * (1 << 16) * 8 >> 14
    run_dry(node.function)
    assert not any(node.hca.mkeys.get(index) for index in indexes)


def test_a_function_that_another_one_ends_is_run(node):
    """Or nothing of what waits would be taken back until its driver does something."""
    woken = []
    node.hca.scheduler.on_work = lambda: woken.append(True)
    run_dry(node.function)
    assert not node.hca.scheduler.is_awake
    lifecycle.shut_down(node.hca)
    assert woken == [True]
