"""Messages that are too much for one turn: what they move, what stops them, what each round costs.

Costs are counted in the device's own steps (a piece, or a page of 4 KiB), never in time.
"""

import random

import pytest
from helpers.device.ibta import RNR_NAK_NS

from emu.device.rounds.budget import POLL_BUDGET, STEPS_PER_ACCESS
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.keys.signatures import CRC64, Crc, Dif, SignatureKey
from emu.driver.keys.umr import FastRegKey
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure, good
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, KLM, RADDR, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

RC, UC, XRC = QpType.RC, QpType.UC, QpType.XRC
MIB = 1 << 20
LONG = 9 * MIB + 12345
"""More than moves in two polls: a command in the middle comes after the second one."""
pytestmark = pytest.mark.hostile

A_ROUND = POLL_BUDGET + STEPS_PER_ACCESS
"""What a round may cost: what it begins, and one access that has begun by then."""
PACKET_BYTES = 4096 + 64
"""The largest MTU, and headers: a list of single bytes costs a step for each."""


@pytest.fixture
def memory():
    """Guest memory for two regions of LONG bytes."""
    return Memory(32 * MIB)


@pytest.fixture(scope="module")
def text():
    return random.Random(1).randbytes(LONG)


@pytest.fixture
def source(channel, text):
    region = channel.left.region(LONG, va=0x1000_0000_0123)
    region.write(text)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(LONG, va=0x2000_0000_0FFF)


class TestShort:
    """A round that has done enough cuts a short message, too: it has the outcome of a whole one."""

    @pytest.fixture
    def ends(self, pair):
        return tuple(pair)

    @pytest.fixture
    def in_a_full_round(self, channel):
        def run():
            budget = channel.left.hca.budget
            budget.begin()
            budget.steps = POLL_BUDGET
            channel.left.function.poll()

        return run

    @pytest.fixture
    def writes(self, channel):
        """How many WRITEs the receiver has counted."""
        driver = channel.right.driver
        number = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
        counter = {"qpc": {"counter_set_id": number}, "opt_param_mask": 1 << 25}
        driver.must(Op.RTS2RTS_QP, qpn=channel.receiver.qpn, **counter)
        return lambda: driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number).rx_write_requests

    def test_without_immediate_data_it_takes_no_receive_request(self, channel, in_a_full_round):
        region = channel.right.region(64)
        channel.write((region.key, region.va), b"data")
        in_a_full_round()
        channel.settle()
        assert len(channel.sent()) == 1
        assert region.read(0, 4) == b"data"

    def test_without_a_receive_request_it_does_not_count(
        self, channel, in_a_full_round, writes, clock
    ):
        region = channel.right.region(64)
        channel.write((region.key, region.va), b"data", imm=7)
        in_a_full_round()
        assert writes() == 0
        channel.post_recv()
        clock.advance(1_000_000)
        channel.settle()
        assert len(channel.sent()) == 1
        assert writes() == 1


def rounds(*nodes):
    """Let the device work; what each of its rounds has cost."""
    costs = []
    functions = {id(node.function): node.function for node in nodes}.values()
    while sum(function.run() for function in functions):
        costs += [function.hca.budget.steps for function in functions]
        assert len(costs) < 20_000
    return costs


def stops_after(node, count):
    """So many rounds of one function."""
    for _ in range(count):
        assert node.function.run()


class TestLong:
    """A message of several megabytes, on every way there is."""

    @pytest.mark.parametrize("service", [RC])
    @pytest.mark.parametrize("ends", ["two functions"], indirect=True)
    def test_receiver_that_was_reset_meanwhile_gets_all_of_it(
        self, channel, source, target, text, clock
    ):
        """What it had of the message was before it was reset."""
        psn = channel.right.hca.qps.get(channel.receiver.qpn).epsn
        channel.write((target.key, target.va), source.sge())
        stops_after(channel.left, 1)
        channel.receiver.to_reset()
        target.write(bytes(LONG))
        channel.receiver.init()
        path = channel.right.path_to(channel.left)
        channel.receiver.to_rtr(qpn=channel.sender.qpn, psn=psn, path=path)
        channel.until_sent(clock, 1, 1_000_000_000)
        assert target.read() == text

    @pytest.mark.parametrize("service", [RC, UC, XRC])
    @pytest.mark.parametrize("immediate", [None, 77])
    def test_write(self, channel, source, target, text, immediate):
        if immediate is not None:
            channel.post_recv(target.sge(0, 1))
        channel.write((target.key, target.va), source.sge(), imm=immediate)
        channel.settle()
        assert channel.sent()
        assert target.read() == text
        assert [found.immediate for found in channel.received()] == [immediate] * bool(immediate)

    @pytest.mark.parametrize("service", [RC, UC, XRC])
    def test_send(self, channel, source, target, text):
        channel.post_recv(target.sge(0, 100), target.sge(5000, 3 * MIB), target.sge(4 * MIB))
        channel.send(source.sge(0, 4 * MIB))
        channel.settle()
        assert channel.sent()
        assert [found.byte_cnt for found in channel.received()] == [4 * MIB]
        assert target.read(0, 100) == text[:100]
        assert target.read(5000, 3 * MIB) == text[100 : 100 + 3 * MIB]
        rest = text[100 + 3 * MIB : 4 * MIB]
        assert target.read(4 * MIB, len(rest)) == rest

    @pytest.mark.parametrize("service", [RC, XRC])
    def test_read(self, channel, source, target):
        target.write(source.read()[::-1])
        channel.read((target.key, target.va), source.sge(0, MIB), source.sge(MIB))
        channel.settle()
        assert channel.sent()
        assert source.read() == target.read()


class TestInTurns:
    """What others have of it: both ends in one function, or in two."""

    @pytest.fixture(params=["one function", "two functions"])
    def ends(self, request):
        if request.param == "two functions":
            return tuple(request.getfixturevalue("pair"))
        return (request.getfixturevalue("node"),) * 2

    def test_short_messages_pass_it(self, channel, source, target):
        other = Channel(RC, channel.left, channel.right)
        channel.write((target.key, target.va), source.sge())
        other.write((target.key, target.va), source.sge(0, 8))
        stops_after(channel.left, 1)
        assert not channel.sender.cq.drain()
        assert other.sent()
        channel.left.settle()
        assert channel.sent()

    def test_rounds(self, channel, source, target):
        channel.write((target.key, target.va), source.sge())
        assert max(rounds(channel.left, channel.right)) <= A_ROUND

    @pytest.mark.parametrize("op", ["write", "send", "read"])
    def test_key_that_goes_in_the_middle(self, channel, source, target, op, text):
        """What has been moved stays, as with packets."""
        channel.post_recv(target.sge())
        if op == "send":
            channel.send(source.sge())
        else:
            getattr(channel, op)((target.key, target.va), source.sge())
        stops_after(channel.left, 1)
        gone = target if op != "send" else source
        gone.node.driver.must(Op.DESTROY_MKEY, mkey_index=gone.index)
        expected = CqeSyndrome.REMOTE_ACCESS_ERR if op != "send" else CqeSyndrome.LOCAL_PROT_ERR
        assert channel.failure() == expected
        moved = (source if op == "read" else target).read(0, 4096)
        assert moved == (bytes(4096) if op == "read" else text[:4096])

    @pytest.mark.parametrize("side", ["sender", "receiver"])
    @pytest.mark.parametrize("what", ["to_error", "to_reset", "destroy"])
    def test_queue_pair_that_stops_in_the_middle(self, channel, source, target, side, what):
        channel.post_recv(target.sge())
        channel.send(source.sge())
        stops_after(channel.left, 1)
        getattr(getattr(channel, side), what)()
        channel.left.settle()
        assert not [found for found in channel.recv_cq.drain() if found.opcode < CqeOpcode.REQ_ERR]
        if side == "sender" and what == "to_error":
            assert failure(channel.sender) == CqeSyndrome.WR_FLUSH_ERR
        elif side == "sender":
            assert not channel.sender.cq.drain()

    def test_receive_request_is_flushed(self, channel, source, target):
        channel.post_recv(target.sge())
        channel.send(source.sge())
        stops_after(channel.left, 1)
        channel.receiver.to_error()
        (flushed,) = channel.recv_cq.drain()
        assert flushed.syndrome == CqeSyndrome.WR_FLUSH_ERR

    @pytest.mark.parametrize("service", [XRC])
    def test_shared_queue_that_goes_in_the_middle(self, channel, source, target):
        """With its CQ: nothing completes there any more. The receiver refers to another queue."""
        cq, domain = (
            channel.right.completion_queue(),
            channel.right.hca.srqs.get(channel.srqn).xrcd.handle,
        )
        queue = channel.right.shared_queue(xrcd=domain, cq=cq)
        queue.post(target.sge())
        channel.sender.send(source.sge(), xrc_srqn=queue.srqn)
        stops_after(channel.left, 1)
        channel.right.driver.must(Op.DESTROY_XRC_SRQ, xrc_srqn=queue.srqn)
        channel.right.driver.must(Op.DESTROY_CQ, cqn=cq.cqn)
        assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
        assert not cq.drain()

    def test_sender_that_comes_back(self, channel, source, target, text):
        """Its message begins anew, and takes the receive request that it had."""
        channel.post_recv(target.sge())
        channel.send(source.sge())
        stops_after(channel.left, 1)
        channel.sender.to_reset()
        channel.left.settle()
        sender, receiver = channel.sender, channel.receiver
        sender.init().to_rtr(receiver.node.lid, receiver.qpn).to_rts(0x10)
        channel.send(source.sge(0, 100))
        channel.left.settle()
        assert channel.sent()
        (received,) = channel.received()
        assert received.byte_cnt == 100
        assert target.read(0, 100) == text[:100]

    @pytest.mark.parametrize("service", [XRC])
    def test_sender_that_comes_back_for_another_shared_queue(self, channel, source, target, text):
        """The receive request that was set aside is the first queue's."""
        domain = channel.right.hca.srqs.get(channel.srqn).xrcd.handle
        other = channel.right.shared_queue(xrcd=domain, cq=channel.recv_cq)
        channel.post_recv(target.sge())
        place = channel.right.region(100)
        other.post(place.sge())
        channel.send(source.sge())
        stops_after(channel.left, 1)
        channel.sender.to_reset()
        channel.left.settle()
        sender, receiver = channel.sender, channel.receiver
        sender.init().to_rtr(receiver.node.lid, receiver.qpn).to_rts(0x10)
        channel.sender.send(source.sge(LONG - 100, 100), xrc_srqn=other.srqn)
        channel.left.settle()
        assert channel.sent()
        assert place.read() == text[-100:]
        assert target.read(0, 100) == text[:100]

    def test_receive_list_that_is_too_short(self, channel, source, target):
        channel.post_recv(target.sge(0, LONG - 1))
        channel.send(source.sge())
        assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
        assert channel.receive_failure() == CqeSyndrome.LOCAL_LENGTH_ERR

    def test_range_that_is_too_short(self, channel, source, target):
        """All of it is looked at before the first byte moves."""
        channel.write((target.key, target.va + 1), source.sge())
        assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
        assert target.read(0, 4096) == bytes(4096)


class TestPaging:
    @pytest.fixture
    def pager(self, node):
        return Pager(node)

    @pytest.mark.parametrize("op", ["write", "read"])
    @pytest.mark.parametrize("side", ["local", "remote"])
    def test_page_in_the_middle(self, node, qps, pager, op, side, text):
        """It goes on behind what has been moved, which the event tells."""
        absent, plain = PagedRegion(pager, LONG, va=0x4000_0000), node.region(LONG)
        missing = 1100
        absent.bring_in(*range(missing), *range(missing + 1, len(absent.pages)))
        local, remote = (absent, plain) if side == "local" else (plain, absent)
        origin, goal = (local, remote) if op == "write" else (remote, local)
        origin.write(text)
        getattr(qps[0], op)((remote.key, remote.va), local.sge())
        event = pager.fault()
        assert event.committed == 4 * MIB
        absent.bring_in(missing)
        pager.must_resume(event)
        node.settle()
        good(qps[0])
        assert goal.read() == text


def byte_by_byte(node, region, count):
    """A key whose bytes are every other byte of a region."""
    entry = REPEAT_ENTRY.pack(2, 1, region.key, region.va)
    xlt = REPEAT.pack(1, REPEAT_BLOCK, count, 1) + entry
    return indirect_key(
        node, AccessMode.KLMS, [KLM.unpack(xlt[at : at + 16]) for at in (0, 16)], count
    )


class TestScattered:
    """Keys that fall into a piece for each byte."""

    COUNT = 20_000

    @pytest.fixture
    def region(self, node, text):
        region = node.region(2 * self.COUNT, va=0x7000_0000_0001)
        region.write(text[: 2 * self.COUNT])
        return region

    @pytest.fixture
    def plain(self, node, text):
        region = node.region(self.COUNT)
        region.write(text[-self.COUNT :])
        return region

    @pytest.fixture
    def key(self, node, region):
        return byte_by_byte(node, region, self.COUNT)

    def test_write_to_it(self, node, qps, region, plain, key, text):
        qps[0].write((key, 0), plain.sge())
        assert max(rounds(node)) <= A_ROUND
        good(qps[0])
        expected = bytearray(text[: 2 * self.COUNT])
        expected[::2] = plain.read()
        assert region.read() == expected

    def test_write_from_it(self, node, qps, region, plain, key):
        qps[0].write((plain.key, plain.va), (self.COUNT, key, 0))
        assert max(rounds(node)) <= A_ROUND
        good(qps[0])
        assert plain.read() == region.read()[::2]

    @pytest.mark.parametrize("segments", [1, 20])
    def test_send_from_one_into_another(self, node, qps, region, key, text, segments):
        other = node.region(2 * self.COUNT)
        into = byte_by_byte(node, other, self.COUNT)
        size = self.COUNT // segments
        qps[1].post_recv((self.COUNT // 2, into, 0), (self.COUNT // 2, into, self.COUNT // 2))
        qps[0].send(*[(size, key, at) for at in range(0, self.COUNT, size)])
        assert max(rounds(node)) <= A_ROUND
        good(qps[0])
        good(qps[1])
        assert other.read()[::2] == text[: 2 * self.COUNT : 2]
        assert not any(other.read()[1::2])

    def test_read(self, node, qps, region, plain, key):
        qps[0].read((key, 0), plain.sge())
        assert max(rounds(node)) <= A_ROUND
        good(qps[0])
        assert plain.read() == region.read()[::2]

    def test_many_queue_pairs_at_once(self, node, plain, key):
        """They share a round's steps."""
        pairs = [(node.queue_pair(), node.queue_pair()) for _ in range(8)]
        for pair in pairs:
            connect(*pair)
            for _ in range(2):
                pair[0].read((key, 0), plain.sge())
        assert max(rounds(node)) <= A_ROUND
        for sender, _ in pairs:
            good(sender)


class TestOfOnePacket:
    """A short WRITE with immediate data from such a key takes its receive request first."""

    SIZE = 4096

    @pytest.fixture
    def qps(self, node):
        pair = node.queue_pair(), node.queue_pair()
        connect(*pair, mtu=5, min_rnr_nak=1)
        return pair

    @pytest.fixture
    def write(self, node, qps):
        region = node.region(2 * self.SIZE)
        region.write(b"data" * (self.SIZE // 2))
        key = byte_by_byte(node, region, self.SIZE)

        def post(target, imm=7):
            qps[0].write((target.key, target.va), (self.SIZE, key, 0), imm=imm)
            node.settle()

        return post

    def test_without_the_request(self, node, qps, write, clock):
        """Nothing is written, and nothing counted."""
        number = node.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
        counter = {"qpc": {"counter_set_id": number}, "opt_param_mask": 1 << 25}
        node.driver.must(Op.RTS2RTS_QP, qpn=qps[1].qpn, **counter)
        target = node.region(self.SIZE)
        write(target)
        found = node.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number)
        assert (found.out_of_buffer, found.rx_write_requests) == (1, 0)
        assert not any(target.read())
        qps[1].post_recv()
        clock.advance(RNR_NAK_NS[1])
        node.settle()
        good(qps[0])
        good(qps[1])
        found = node.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number)
        assert found.rx_write_requests == 1
        assert target.read() == b"dt" * (self.SIZE // 2)

    def test_without_immediate_data(self, node, qps, write):
        """It needs no request."""
        target = node.region(self.SIZE)
        write(target, imm=None)
        good(qps[0])
        assert target.read() == b"dt" * (self.SIZE // 2)

    def test_without_the_right(self, node, qps, write):
        mask = {"qpc": {"rwe": 0}, "opt_param_mask": 1 << 3}
        node.driver.must(Op.RTS2RTS_QP, qpn=qps[1].qpn, **mask)
        qps[1].post_recv()
        write(target := node.region(self.SIZE))
        assert failure(qps[0]) == CqeSyndrome.REMOTE_INVAL_REQ_ERR
        assert not any(target.read())

    def test_while_a_page_is_absent(self, node, qps, write):
        """The only request that is posted waits with the message, which finds it again."""
        absent = PagedRegion(pager := Pager(node), self.SIZE)
        qps[1].post_recv()
        write(absent)
        event = pager.fault()
        absent.bring_in()
        pager.must_resume(event)
        node.settle()
        good(qps[0])
        good(qps[1])
        assert absent.read() == b"dt" * (self.SIZE // 2)

    def test_that_stops_while_a_page_is_absent(self, node, qps, write):
        absent = PagedRegion(pager := Pager(node), self.SIZE)
        qps[1].post_recv()
        write(absent)
        pager.fault()
        qps[1].to_error()
        node.settle()
        (flushed,) = qps[1].cq.drain()
        assert flushed.syndrome == CqeSyndrome.WR_FLUSH_ERR


class TestTooLong:
    """Requests that fail for their length, before their memory is looked up."""

    @pytest.mark.parametrize("op", ["send", "write", "read"])
    def test_sixteen_times_two_gibibytes(self, node, qps, op):
        everything = node.driver.create_mkey(node.pdn, rr=1, rw=1) << 8
        lists = [
            FastRegKey(node, entries=1 << 10, length64=1, free=0, mode=AccessMode.KSM,
                       log_page_size=31, lr=1, lw=1).key for _ in range(2)
        ]  # fmt: skip
        segments = [DATA.pack(0, key, 0) for key in [everything, *lists] * 5]
        if op != "send":
            segments.insert(0, RADDR.pack(0, everything))
        opcodes = {"send": Opcode.SEND, "write": Opcode.RDMA_WRITE, "read": Opcode.RDMA_READ}
        qps[0].post(opcodes[op], *segments)
        assert max(rounds(node), default=0) <= 16
        assert failure(qps[0]) == CqeSyndrome.LOCAL_LENGTH_ERR
        assert qps[0].state is QpState.ERR


class TestSigned:
    """Signatures are computed for a part at a time, of a message that may be as long as any."""

    SIZE = 200 * 512

    @pytest.fixture
    def store(self, node, text):
        region = node.region(self.SIZE + 8 * 200, va=0x5000_0000_0100)
        region.write(text[: self.SIZE])
        return region

    @pytest.mark.parametrize("domain", [Dif(), Crc(bfs=CRC64, seed=(1 << 64) - 1)])
    def test_there_and_back(self, node, qps, store, text, domain):
        key, back = SignatureKey(node), SignatureKey(node)
        key.configure(qps[1], [store.sge(0, self.SIZE)], wire=domain)
        goal, far = node.region(self.SIZE), node.region(self.SIZE + 8 * 200)
        back.configure(qps[1], [goal.sge()], wire=domain)
        for op, remote in (("read", key), ("write", back)):
            getattr(qps[0], op)((remote.key, 0), far.sge())
            assert max(rounds(node)) <= A_ROUND
            good(qps[0])
        assert goal.read() == text[: self.SIZE]
        signed = far.read()
        for index in range(200):
            assert signed[520 * index :][:512] == text[512 * index :][:512]

    def test_list_of_single_bytes(self, node, qps, store, text):
        """Blocks that lie byte by byte, read with the rest of the blocks at both ends."""
        spread = node.region(2 * 40 * 512)
        spread.write(bytes(byte for value in text[: 40 * 512] for byte in (value, 0)))
        entry = REPEAT_ENTRY.pack(2, 1, spread.key, spread.va)
        xlt = REPEAT.pack(1, REPEAT_BLOCK, 40 * 512, 1) + entry
        rows = [KLM.unpack(xlt[at : at + 16]) for at in (0, 16)]
        key = SignatureKey(node)
        below = indirect_key(node, AccessMode.KLMS, rows, 40 * 512)
        key.configure(qps[1], [(40 * 512, below, 0)], wire=Dif())
        far = node.region(40 * 520)
        qps[0].read((key.key, 0), far.sge())
        assert max(rounds(node)) <= A_ROUND + 3 * PACKET_BYTES
        good(qps[0])
        assert far.read()[:512] == text[:512]
        assert far.read()[39 * 520 :][:512] == text[39 * 512 : 40 * 512]


def test_lists_that_are_laid_out_cost_their_access_nothing(node, qps):
    """An access through many long lists finds its place in each without reading them."""
    region, room = node.region(4096), node.region(4096)
    rows = [(0, region.key, 0)] * 60_000 + [(64, region.key, region.va)]
    keys = [indirect_key(node, AccessMode.KLMS, rows, 64) for _ in range(10)]
    qps[0].write((room.key, room.va), *[(64, key, 0) for key in keys])
    assert max(rounds(node), default=0) <= 64
    good(qps[0])
