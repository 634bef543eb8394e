"""Work requests that come by the doorbell register (BlueFlame), as an option of the device."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.function.blueflame import HOLD_NS
from emu.device.models import MODELS
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.driver.world.clock import HandClock
from emu.server.net.ib.local import LocalFabric
from emu.server.service.devicespec import parse
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL

PAGE, BUFFERS = 4096, (0x800, 0x900)
SIGNALED = 8
NEED_NO_SEGMENT = {Opcode.NOP, Opcode.SEND, Opcode.SEND_IMM, Opcode.SEND_INVAL}
MEMORY, COPY = b"out of the ring.", b"by the register."


@pytest.fixture
def model():
    return parse("connectx6,bf=1").model


@pytest.fixture
def ends(node):
    pair = node.queue_pair(), node.queue_pair()
    connect(*pair)
    return pair


@pytest.fixture
def target(node):
    return node.region(4096)


class Copier:
    """Posts inline messages whose copy says something else than memory does."""

    def __init__(self, qp, peer, target):
        self.qp, self.peer, self.target = qp, peer, target
        self.bar, self.page = qp.node.driver.bar, qp.node.driver.uar * PAGE

    def post(self):
        """The request as it is copied, in whole blocks."""
        self.peer.post_recv(self.target.sge())
        index = self.qp.send(MEMORY, ring=False)
        inline = (1 << 31 | len(COPY)).to_bytes(4, "big") + COPY
        ds = 1 + -(-len(inline) // 16)
        wqe = CTRL.pack(index << 8 | Opcode.SEND, self.qp.qpn << 8 | ds, SIGNALED, 0) + inline
        return wqe.ljust(64, b"\0")

    def store(self, at, data):
        self.bar.write(self.page + at, data)

    def copy(self, at=BUFFERS[0], size=8, wqe=None):
        wqe = wqe or self.post()
        for start in range(0, len(wqe), size):
            self.store(at + start, wqe[start : start + size])

    def run(self):
        """What has arrived when nothing waits any more but for time."""
        while self.qp.node.function.run():
            pass

    def arrived(self):
        """What the peer has got, and the send completions."""
        done = [entry for entry in self.qp.cq.drain() if entry.opcode == CqeOpcode.REQ]
        self.peer.cq.drain()
        return self.target.read(0, len(COPY)), len(done)


@pytest.fixture
def copier(ends, target):
    qp, peer = ends
    return Copier(qp, peer, target)


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_the_copy_is_executed(copier, size):
    """Whatever the stores' size is; memory is not read again."""
    copier.copy(size=size)
    copier.run()
    assert copier.arrived() == (COPY, 1)


def test_by_both_buffers_in_turn(copier):
    for number in range(6):
        copier.copy(BUFFERS[number % 2])
        copier.run()
        assert copier.arrived() == (COPY, 1)


def test_a_doorbell_alone_waits_a_moment_once(copier, clock):
    """Then the page is known to be one to which nothing is copied."""
    wqe = copier.post()
    copier.store(BUFFERS[0], wqe[:8])
    copier.run()
    assert copier.arrived()[1] == 0
    clock.advance(HOLD_NS)
    copier.run()
    assert copier.arrived() == (MEMORY, 1)
    copier.store(BUFFERS[0], copier.post()[:8])
    copier.run()
    assert copier.arrived() == (MEMORY, 1)


def test_a_page_is_copied_to_again(copier, clock):
    copier.store(BUFFERS[0], copier.post()[:8])
    copier.run()
    clock.advance(HOLD_NS)
    copier.run()
    copier.arrived()
    copier.copy()
    copier.run()
    assert copier.arrived() == (MEMORY, 1), "the doorbell was served before the rest came"
    copier.copy()
    copier.run()
    assert copier.arrived() == (COPY, 1)


def test_a_whole_copy_is_one_on_any_page(copier, clock):
    """One store with all of the request is no doorbell, even where only these have come so far."""
    copier.store(BUFFERS[0], copier.post()[:8])
    copier.run()
    clock.advance(HOLD_NS)
    copier.run()
    copier.arrived()
    copier.copy(size=64)
    copier.run()
    assert copier.arrived() == (COPY, 1)


@pytest.mark.hostile
def test_nothing_is_kept_for_a_queue_that_is_not_there(copier, clock):
    wqe = copier.post()
    copier.store(BUFFERS[0], CTRL.pack(Opcode.SEND, 0x777700 | 4, SIGNALED, 0)[:8])
    assert clock.waiting() == 0
    copier.store(BUFFERS[0], wqe[:8])
    assert clock.waiting() == 1


def test_a_copy_waits_for_its_turn(copier):
    """The one that is next has been posted without a doorbell: it comes out of memory."""
    copier.post()
    copier.copy()
    copier.run()
    assert copier.arrived() == (COPY, 2)


def test_the_first_of_several_copies_counts(copier):
    """Those that come before it has been executed are read from memory."""
    copier.copy()
    copier.copy()
    copier.run()
    assert copier.arrived() == (MEMORY, 2)


def test_a_copy_of_what_was_executed_is_not_executed_again(copier):
    wqe = copier.post()
    for _ in range(2):
        copier.copy(wqe=wqe)
        copier.run()
    assert copier.arrived() == (COPY, 1)
    copier.copy()
    copier.run()
    assert copier.arrived() == (COPY, 1)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "pieces",
    [
        [(0, 8), (16, 8), (24, 8), (8, 8)],
        [(0, 8), (8, 4), (16, 8)],
        [(0, 8), (0, 8), (8, 8)],
        [(8, 8), (16, 8), (24, 8), (0, 8)],
        [(0, 4), (4, 4), (8, 8), (16, 8)],
        [(0, 8), (7, 8), (8, 8)],
    ],
)
def test_pieces_in_another_order_are_no_copy(copier, clock, pieces):
    wqe = copier.post()
    for at, size in pieces:
        copier.store(BUFFERS[0] + at, wqe[at : at + size])
    for _ in range(4):
        copier.run()
        clock.advance(HOLD_NS)
    copier.run()
    assert copier.arrived() == (MEMORY, 1)
    assert not copier.qp.node.hca.copies


@pytest.mark.hostile
@pytest.mark.parametrize("ds", [0, 17, 63])
def test_a_request_that_fits_no_buffer(copier, ds):
    """Or says so: it is an ordinary doorbell."""
    wqe = bytearray(copier.post())
    wqe[7] = ds
    copier.copy(wqe=bytes(wqe))
    copier.run()
    assert copier.arrived() == (MEMORY, 1)


@pytest.mark.hostile
@pytest.mark.parametrize("opcode", sorted(set(Opcode) - NEED_NO_SEGMENT))
def test_a_control_segment_alone(copier, opcode):
    """A copy of 16 bytes is refused like such a request in the ring."""
    index = int.from_bytes(copier.post()[1:3], "big")
    number = copier.qp.qpn << 8 | 1
    copier.copy(size=16, wqe=CTRL.pack(index << 8 | opcode, number, SIGNALED, 0))
    copier.run()
    (entry,) = copier.qp.cq.drain()
    assert entry.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR


@pytest.mark.hostile
@pytest.mark.parametrize("number", [0, 0x39, 0xABCDEF])
def test_a_copy_for_no_queue(copier, number, caplog):
    wqe = bytearray(copier.post())
    wqe[4:7] = number.to_bytes(3, "big")
    copier.copy(wqe=bytes(wqe))
    copier.run()
    assert copier.arrived()[1] == 0
    assert not copier.qp.node.hca.copies
    caplog.clear()


@pytest.mark.hostile
def test_the_queue_is_gone_before_the_copy_is_whole(copier):
    wqe = copier.post()
    copier.store(BUFFERS[0], wqe[:8])
    copier.qp.destroy()
    for at in range(8, 64, 8):
        copier.store(BUFFERS[0] + at, wqe[at : at + 8])
    copier.run()
    assert not copier.qp.node.hca.copies


@pytest.mark.hostile
def test_nothing_waits_after_a_reset(copier, clock):
    copier.store(BUFFERS[0], copier.post()[:8])
    hca = copier.qp.node.hca
    (copy,) = hca.copies.values()
    assert copy.timer is not None
    copier.qp.node.function.reset()
    copier.qp.node.function.run()
    assert copy.timer is None
    clock.advance(HOLD_NS)


@pytest.mark.hostile
def test_a_restarted_queue_forgets_what_was_copied(copier):
    copier.copy()
    ring = copier.qp.node.hca.qps.get(copier.qp.qpn).sq
    ring.restart()
    assert MEMORY in ring.fetch(1).buf


@given(st.lists(st.tuples(st.integers(0, 0x7FF), st.binary(min_size=1, max_size=64)), max_size=30))
def test_any_stores_at_all(stores):
    clock = HandClock()
    node, _ = two_nodes(parse("connectx6,bf=1").model, clock, LocalFabric(clock))
    qp, peer = node.queue_pair(), node.queue_pair()
    connect(qp, peer)
    copier = Copier(qp, peer, node.region(4096))
    for at, data in stores:
        copier.store(0x800 + at, data)
        if len(data) == 8:
            copier.store(0x800 + at, (qp.qpn << 8 | 2).to_bytes(8, "big"))
    for _ in range(3):
        copier.run()
        clock.advance(HOLD_NS)
    assert not node.hca.health.has_failed
    assert len(node.hca.copies) <= 8


class TestTheDriversTest:
    """core/wc.c: 255 NOPs, the last of which alone asks for a completion in memory."""

    NOPS = 255

    def first_completion(self, node):
        qp = node.queue_pair(QpType.RC, log_sq_size=8)
        connect(qp, node.queue_pair())
        bar, page = node.driver.bar, node.driver.uar * PAGE
        for number in range(self.NOPS):
            is_last = number == self.NOPS - 1
            index = qp.post(Opcode.NOP, flags=SIGNALED if is_last else 0, ring=False)
            wqe = CTRL.pack(index << 8 | Opcode.NOP, qp.qpn << 8 | 1, SIGNALED, 0).ljust(64, b"\0")
            for at in range(0, 64, 8):
                bar.write(page + BUFFERS[number % 2] + at, wqe[at : at + 8])
        node.settle()
        return qp.cq.drain()[0].wqe_counter

    def test_passes(self, node):
        assert self.first_completion(node) != self.NOPS - 1

    @pytest.mark.parametrize("model", [MODELS["connectx6"]], ids=["without"])
    def test_fails_without_the_option(self, node, model):
        assert self.first_completion(node) == self.NOPS - 1


@pytest.mark.parametrize("model", [replace(MODELS["connectx6"])], ids=["without"])
def test_without_the_option_memory_counts(copier, model):
    copier.copy()
    copier.run()
    assert copier.arrived() == (MEMORY, 1)
