"""On-demand paging: who waits for which page, what the driver is told, how it goes on."""

import pytest
from helpers.device.paging import IN_BOTH_SCHEMES

from emu.device.models.capabilities import ALL_MEMORY_ODP
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.implicit import ImplicitKey
from emu.driver.keys.paging import BOTH, READ, PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from emu.driver.verbs.shared_queue import SharedQueue
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import PageFaultSubtype
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType

pytestmark = [pytest.mark.usefixtures("scheme"), IN_BOTH_SCHEMES]

RC, UC, UD, XRC = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
SIZE = 3 * 4096
TEXT = bytes(range(1, 251)) * 40
WQE, RDMA, MEMORY = PageFaultSubtype.WQE, PageFaultSubtype.RDMA, PageFaultSubtype.MEMORY
PROT, REMOTE = CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.REMOTE_ACCESS_ERR
SHARED_RECEIVE, SEND_OR_WRITE, RECEIVE, READ_OR_ATOMIC = range(4)
RDMA_READ, RDMA_WRITE = 4, 6
PAGE_TIMEOUT_NS = 100_000_000
"""How long a responder waits for a page before it asks to come again."""


@pytest.fixture
def is_memory(scheme):
    return scheme is ALL_MEMORY_ODP


@pytest.fixture
def pagers(ends):
    """The pagers of both ends: one and the same when both ends are one function."""
    left = Pager(ends[0])
    return (left, left) if ends[0] is ends[1] else (left, Pager(ends[1]))


@pytest.fixture
def source(channel, pagers):
    """Paged memory at the sender; the data are there, the device just has no translation."""
    region = PagedRegion(pagers[0], SIZE, va=0x1000_0000_0800)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel, pagers):
    return PagedRegion(pagers[1], SIZE, va=0x2000_0000_0800)


@pytest.fixture
def pinned(channel):
    """Ordinary memory at either end, by its index."""
    regions = [node.region(SIZE, va=0x3000_0000_0000) for node in (channel.left, channel.right)]
    regions[0].write(TEXT)
    return regions


def check_event(event, is_memory, expected, page):
    """The event names the request or RDMA, or the key and its pages, whichever the scheme wants."""
    if is_memory:
        key, va, length = page
        assert event.subtype is MEMORY
        assert (event.r_key, event.va, event.length) == (key, va, length)
        assert event.is_last
    else:
        found = (event.subtype, *(getattr(event, name) for name in expected[1]))
        assert found == (expected[0], *expected[1].values())
    assert 0 < event.token < 1 << (48 if is_memory else 24)


def around(region, at, length):
    """Key, start and bytes of the pages that a range touches."""
    start = region.va + at & -4096
    end = -(-(region.va + at + length) // 4096) * 4096
    return region.key, start, end - start


class TestResponder:
    @pytest.mark.parametrize("service", [RC, XRC])
    def test_a_message_waits_for_the_resume_whatever_is_there(self, channel, pagers, pinned):
        """And those behind it; each of them arrives once."""
        target = PagedRegion(pagers[1], SIZE, va=0x2000_0000_0000)
        for at in (0, 4096):
            channel.post_recv(target.sge(at, 4096))
        channel.send(pinned[0].sge(0, 100))
        event = pagers[1].fault()
        target.bring_in()
        channel.send(pinned[0].sge(100, 100))
        channel.settle()
        assert channel.sent() == channel.received() == []
        pagers[1].must_resume(event)
        assert len(channel.sent()) == len(channel.received()) == 2
        assert target.read(0, 100) + target.read(4096, 100) == TEXT[:200]

    def begin_anew(self, channel):
        channel.sender.to_reset()
        path = channel.left.path_to(channel.right)
        channel.sender.init().to_rtr(qpn=channel.receiver.qpn, psn=0xFFFFF0, path=path)
        channel.sender.to_rts(0x10)

    def test_a_sender_that_begins_anew_waits_as_well(self, channel, pagers, pinned):
        target = PagedRegion(pagers[1], SIZE, va=0x2000_0000_0000)
        channel.post_recv(target.sge(0, 4096))
        channel.send(pinned[0].sge(0, 100))
        event = pagers[1].fault()
        self.begin_anew(channel)
        target.bring_in()
        channel.send(pinned[0].sge(0, 100))
        channel.settle()
        assert channel.sent() == channel.received() == []
        pagers[1].must_resume(event)
        assert len(channel.sent()) == len(channel.received()) == 1
        assert target.read(0, 100) == TEXT[:100]

    @pytest.mark.parametrize("service", [XRC])
    @pytest.mark.parametrize("ends", ["two functions"], indirect=True)
    def test_a_request_that_has_waited_is_of_its_own_queue(self, channel, pagers, pinned):
        """The sender begins anew, with a message for another shared queue."""
        target = PagedRegion(pagers[1], SIZE, va=0x2000_0000_0000)
        channel.post_recv(target.sge())
        channel.send(pinned[0].sge(0, 100))
        event = pagers[1].fault()
        self.begin_anew(channel)
        target.bring_in()
        pagers[1].must_resume(event)
        domain = channel.right.hca.srqs.get(channel.srqn).xrcd.handle
        other = SharedQueue(channel.right, xrcd=domain, cq=channel.right.completion_queue())
        other.post(pinned[1].sge())
        channel.srqn = other.srqn
        channel.send(pinned[0].sge(100, 100))
        channel.settle()
        assert len(channel.sent()) == 1
        assert channel.received() == []
        assert pinned[1].read(0, 100) == TEXT[100:200]
        assert not any(target.read(0, 100))

    @pytest.mark.hostile
    @pytest.mark.parametrize("service", [XRC])
    @pytest.mark.parametrize("ends", ["two functions", "packets"], indirect=True)
    def test_no_request_is_lost_that_has_waited(self, channel, pagers, pinned, clock):
        """The sender begins anew twice, and names another shared queue each time."""
        domain = channel.right.hca.srqs.get(channel.srqn).xrcd.handle
        other = SharedQueue(channel.right, xrcd=domain, cq=channel.right.completion_queue())
        queues, data = (channel.srq, other), pinned[0]
        targets = [PagedRegion(pagers[1], 4096, va=va << 40) for va in (2, 4)]
        for queue, target in zip(queues, targets, strict=True):
            queue.post(target.sge())
            channel.srqn = queue.srqn
            channel.send(data.sge(0, 100))
            event = pagers[1].fault()
            self.begin_anew(channel)
            channel.settle()
            clock.advance(PAGE_TIMEOUT_NS)  # held packets are dropped
            channel.settle()
            pagers[1].must_resume(event)
        for at, queue, target in zip((100, 200), queues, targets, strict=True):
            target.bring_in()
            channel.srqn = queue.srqn
            channel.send(data.sge(at, 100))
            channel.settle()
            assert target.read(0, 100) == TEXT[at : at + 100]
        assert len(channel.sent()) == 2


class TestRequester:
    @pytest.mark.parametrize("service", [RC, UC, UD, XRC])
    def test_send_waits_for_its_page(self, channel, pagers, source, pinned, is_memory):
        channel.post_recv(pinned[1].sge())
        index = channel.send(source.sge(100, 1000))
        event = pagers[0].fault()
        expected = WQE, {
            "type": SEND_OR_WRITE, "number": channel.sender.qpn, "wqe_index": index,
        }  # fmt: skip
        check_event(event, is_memory, expected, around(source, 100, 1000))
        assert channel.sent() == []
        source.bring_in()
        pagers[0].must_resume(event)
        assert len(channel.sent()) == len(channel.received()) == 1
        assert pinned[1].read(channel.header, 1000) == TEXT[100:1100]

    @pytest.mark.parametrize("service", [RC, XRC])
    def test_read_waits_for_room(self, channel, pagers, source, target, pinned, is_memory):
        pinned[1].write(TEXT)
        room = PagedRegion(pagers[0], SIZE, va=0x1000_0000_0000)
        index = channel.read((pinned[1].key, pinned[1].va), room.sge(0, SIZE))
        event = pagers[0].fault()
        expected = WQE, {
            "type": READ_OR_ATOMIC, "number": channel.sender.qpn, "wqe_index": index,
        }  # fmt: skip
        check_event(event, is_memory, expected, around(room, 0, SIZE))
        room.bring_in()
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1
        assert room.read() == pinned[1].read()

    def test_page_that_may_only_be_read(self, channel, pagers, source, pinned):
        """A page without the right to write is as good as absent for the answer to a READ."""
        room = PagedRegion(pagers[0], 4096)
        room.bring_in(rights=READ)
        channel.read((pinned[1].key, pinned[1].va), room.sge())
        event = pagers[0].fault()
        room.bring_in(rights=BOTH)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1

    def test_present_pages_do_not_fault(self, channel, pagers, source, pinned):
        source.bring_in()
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 5000))
        assert pagers[0].faults() == []
        assert len(channel.sent()) == 1

    def test_one_page_of_several(self, channel, pagers, source, pinned, is_memory):
        source.bring_in()
        source.take_away(1)
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 9000))
        event = pagers[0].fault()
        if is_memory:
            assert event.va == source.va + 4096 & -4096
        source.bring_in(1)
        pagers[0].must_resume(event)
        assert pinned[1].read(0, 9000) == TEXT[:9000]

    def test_begins_again_from_its_start(self, channel, pagers, source, pinned):
        """No byte is committed while a page is absent, so a page that goes meanwhile is missed."""
        source.bring_in(0)
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 1000), source.sge(1000, 8000))
        for absent, present in ((0, (1, 2)), (None, (0,))):
            event = pagers[0].fault()
            assert event.committed == 0
            assert pinned[1].read(0, 1000) == bytes(1000)
            source.bring_in(*present)
            if absent is not None:
                source.take_away(absent)
            pagers[0].must_resume(event)
        assert len(channel.sent()) == 1
        assert pinned[1].read(0, 9000) == TEXT[:9000]

    def test_page_still_absent_after_resume_faults_again(self, channel, pagers, source, pinned):
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 100))
        tokens = set()
        for _ in range(5):
            event = pagers[0].fault()
            tokens.add(event.token)
            pagers[0].must_resume(event)
        source.bring_in()
        pagers[0].must_resume(pagers[0].fault())
        assert len(tokens) == 5
        assert len(channel.sent()) == 1

    def test_requests_behind_it_wait_and_keep_their_order(self, channel, pagers, source, pinned):
        for _ in range(3):
            channel.post_recv(pinned[1].sge(0, 64))
        channel.send(b"first")
        channel.send(source.sge(0, 10))
        channel.send(b"third")
        event = pagers[0].fault()
        assert [done.byte_cnt for done in channel.received()] == [5]
        source.bring_in()
        pagers[0].must_resume(event)
        assert [done.byte_cnt for done in channel.received()] == [10, 5]
        assert len(channel.sent()) == 3

    def test_a_doorbell_asks_for_no_page_again(self, channel, pagers, source, pinned):
        remote = pinned[1].key, pinned[1].va
        channel.write(remote, source.sge(0, 8))
        event = pagers[0].fault()
        channel.write(remote, source.sge(0, 8))
        assert pagers[0].faults() == []
        source.bring_in()
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 2

    def test_the_other_direction_goes_on(self, channel, pagers, target, pinned):
        """Its receiver waits for a page, and sends requests meanwhile."""
        channel.write((target.key, target.va), pinned[0].sge(0, 8))
        event = pagers[1].fault()
        channel.receiver.write((pinned[0].key, pinned[0].va), pinned[1].sge(0, 8))
        channel.settle()
        assert [done.syndrome for done in channel.receiver.cq.drain()] == [0]
        target.bring_in()
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1

    def test_other_queue_pairs_go_on(self, channel, ends, pagers, source, pinned):
        channel.send(source.sge(0, 100))
        assert pagers[0].fault()
        other = Channel(RC, *ends)
        other.post_recv(pinned[1].sge())
        other.send(b"unmoved")
        other.settle()
        assert len(other.sent()) == len(other.received()) == 1

    def test_resume_with_error(self, channel, pagers, source, pinned):
        """The request fails and the queue pair stops."""
        channel.send(b"before")
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 100))
        channel.send(b"after")
        pagers[0].must_resume(pagers[0].fault(), error=True)
        done = channel.sender.cq.drain()
        assert [found.syndrome for found in done] == [0, PROT, CqeSyndrome.WR_FLUSH_ERR]
        assert channel.sender.state is QpState.ERR

    def test_the_log_says_what_was_refused(self, channel, pagers, source, pinned, caplog):
        caplog.set_level("DEBUG")
        channel.post_recv(pinned[1].sge())
        channel.send(source.sge(0, 100))
        event = pagers[0].fault()
        pagers[0].must_resume(event, error=True)
        request = f"SEND_OR_WRITE WQE 0x0 of {channel.sender.qpn:#x} from byte 0"
        assert request in caplog.text
        assert f"absent: key {source.key:#x}, {source.va:#x}+0x64" in caplog.text


class TestRdma:
    @pytest.mark.parametrize("service", [RC, UC, XRC])
    def test_write_waits(self, channel, pagers, source, target, pinned, is_memory):
        channel.write((target.key, target.va + 50), pinned[0].sge(0, 9000))
        event = pagers[1].fault()
        expected = RDMA, {
            "type": RDMA_WRITE, "r_key": target.key, "va": target.va + 50, "length": 9000,
            "packet_length": 1024, "committed": 0,
        }  # fmt: skip
        check_event(event, is_memory, expected, around(target, 50, 9000))
        if service_answers(channel):
            assert channel.sent() == []
        target.bring_in()
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert target.read(50, 9000) == TEXT[:9000]

    @pytest.mark.parametrize("service", [RC, XRC])
    def test_read_waits(self, channel, pagers, source, target, pinned, is_memory):
        target.write(TEXT)
        channel.read((target.key, target.va), pinned[0].sge(0, 8000))
        event = pagers[1].fault()
        expected = RDMA, {
            "type": RDMA_READ, "r_key": target.key, "va": target.va, "length": 8000,
        }  # fmt: skip
        check_event(event, is_memory, expected, around(target, 0, 8000))
        target.bring_in(rights=READ)
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert pinned[0].read(0, 8000) == TEXT[:8000]

    def test_write_begins_again_from_its_start(self, channel, pagers, source, target, pinned):
        target.bring_in(0)
        channel.write((target.key, target.va), pinned[0].sge(0, 9000))
        for absent, present in ((0, (1, 2)), (None, (0,))):
            event = pagers[1].fault()
            assert event.committed == 0
            assert target.read(0, 9000) == bytes(9000)
            target.bring_in(*present)
            if absent is not None:
                target.take_away(absent)
            pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert target.read(0, 9000) == TEXT[:9000]

    @pytest.mark.parametrize("service", [RC, XRC])
    def test_atomic_happens_once(self, channel, pagers, source, target, pinned):
        target.write(bytes(8))
        channel.fetch_add((target.key, target.va), pinned[0].sge(0, 8), 5)
        for _ in range(3):
            pagers[1].must_resume(pagers[1].fault())
        event = pagers[1].fault()
        target.bring_in()
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert target.read(0, 8) == (5).to_bytes(8, "little")
        assert pinned[0].read(0, 8) == bytes(8)

    def test_resume_with_error(self, channel, pagers, source, target, pinned):
        channel.write((target.key, target.va), pinned[0].sge(0, 100))
        pagers[1].must_resume(pagers[1].fault(), error=True)
        assert channel.failure() == REMOTE
        assert channel.receiver.state is QpState.ERR
        assert target.read(0, 100) == bytes(100)

    @pytest.mark.parametrize("service", [RC, UC, XRC])
    def test_write_with_immediate_data_waits(self, channel, pagers, source, target, pinned):
        """It has taken its request before, and the message behind it gets the next one."""
        for _ in range(2):
            channel.post_recv(pinned[1].sge())
        channel.write((target.key, target.va), pinned[0].sge(0, 100), imm=7)
        channel.send(b"two")
        event = pagers[1].fault()
        target.bring_in()
        pagers[1].must_resume(event)
        done = channel.received()
        assert [found.wqe_counter for found in done] == [0, 1]
        assert [found.byte_cnt for found in done] == [100, 3]
        assert target.read(0, 100) == TEXT[:100]

    @pytest.mark.parametrize("service", [RC, XRC])
    def test_resume_with_error_of_a_write_with_immediate_data(
        self, channel, pagers, source, target, pinned
    ):
        channel.post_recv(pinned[1].sge())
        channel.write((target.key, target.va), pinned[0].sge(0, 100), imm=7)
        pagers[1].must_resume(pagers[1].fault(), error=True)
        assert channel.failure() == REMOTE
        assert channel.receive_failure() == CqeSyndrome.LOCAL_ACCESS_ERR
        assert channel.receiver.state is QpState.ERR
        assert target.read(0, 100) == bytes(100)

    def test_the_log_says_what_was_refused(self, channel, pagers, target, pinned, clock, caplog):
        """The whole request, the absent part of it, and the time that the driver took."""
        target.bring_in(0)
        channel.write((target.key, target.va + 50), pinned[0].sge(0, 9000))
        event = pagers[1].fault()
        clock.advance(1_004_200_000)
        pagers[1].must_resume(event, error=True)
        absent = 4096 - 0x800
        (said,) = [text for text in caplog.messages if "page fault" in text and "refused" in text]
        assert (
            f"page fault {event.token:#x} refused after 1004.2 ms: "
            f"RDMA_WRITE r_key {target.key:#x}, {target.va + 50:#x}+{9000:#x} from byte 0; "
            f"absent: key {target.key:#x}, {target.va + absent:#x}+{9050 - absent:#x}"
        ) in said

    def test_both_sides_of_a_queue_pair_wait_at_once(self, channel, pagers, source, target, pinned):
        channel.write((target.key, target.va), pinned[0].sge(0, 100))
        one = pagers[1].fault()
        outgoing = PagedRegion(pagers[1], 4096)
        outgoing.write(b"other way")
        channel.sender.post_recv(pinned[0].sge(4096, 100))
        channel.receiver.send(outgoing.sge(0, 9))
        two = pagers[1].fault()
        outgoing.bring_in()
        pagers[1].must_resume(two)
        assert pinned[0].read(4096, 9) == b"other way"
        target.bring_in()
        pagers[1].must_resume(one)
        assert target.read(0, 100) == TEXT[:100]


class TestReceive:
    @pytest.mark.parametrize("service", [RC, UC, XRC])
    def test_send_waits_for_room(self, channel, pagers, source, target, pinned, is_memory):
        index = channel.post_recv(target.sge(10, 9000)) or 0
        channel.post_recv(pinned[1].sge())
        channel.send(pinned[0].sge(0, 8000), imm=77)
        event = pagers[1].fault()
        shared = channel.srqn is not None
        expected = WQE, {
            "type": SHARED_RECEIVE if shared else RECEIVE,
            "number": channel.srqn if shared else channel.receiver.qpn, "wqe_index": index,
        }  # fmt: skip
        assert channel.received() == []
        assert event.subtype is (MEMORY if is_memory else WQE)
        if not is_memory:
            check_event(event, is_memory, expected, None)
        target.bring_in()
        pagers[1].must_resume(event)
        (done,) = channel.received()
        assert (done.byte_cnt, done.immediate, done.wqe_counter) == (8000, 77, index)
        assert target.read(10, 8000) == TEXT[:8000]
        assert len(channel.sent()) == 1

    def test_next_message_gets_the_next_request(self, channel, pagers, source, target, pinned):
        channel.post_recv(target.sge(0, 100))
        channel.post_recv(pinned[1].sge())
        channel.send(b"one")
        channel.send(b"two")
        event = pagers[1].fault()
        target.bring_in()
        pagers[1].must_resume(event)
        assert [done.wqe_counter for done in channel.received()] == [0, 1]
        assert target.read(0, 3) == b"one"
        assert pinned[1].read(0, 3) == b"two"

    def test_resume_with_error(self, channel, pagers, source, target, pinned):
        channel.post_recv(target.sge(0, 100))
        channel.post_recv(pinned[1].sge())
        channel.send(b"lost")
        pagers[1].must_resume(pagers[1].fault(), error=True)
        assert channel.failure() == CqeSyndrome.REMOTE_OP_ERR
        done = channel.recv_cq.drain()
        assert [found.syndrome for found in done] == [PROT, CqeSyndrome.WR_FLUSH_ERR]
        assert [found.wqe_counter for found in done] == [0, 1]

    def test_error_state_flushes_the_request_that_waits(self, channel, pagers, target, pinned):
        channel.post_recv(target.sge(0, 100))
        channel.post_recv(pinned[1].sge())
        channel.send(b"never arrives")
        event = pagers[1].fault()
        channel.receiver.to_error()
        done = channel.recv_cq.drain()
        assert [found.wqe_counter for found in done] == [0, 1]
        assert {found.syndrome for found in done} == {CqeSyndrome.WR_FLUSH_ERR}
        assert pagers[1].resume(event) == Status.OK
        assert pagers[1].resume(event) == Status.BAD_RES_ERR


def service_answers(channel):
    return channel.service is not UC


class TestSharedQueue:
    def test_another_queue_pair_takes_the_next_request(self, ends, pagers):
        left, right = ends
        srq, memory = right.shared_queue(), right.region(4096)
        target = PagedRegion(pagers[1], 4096)
        first, second = (_shared(left, right, srq) for _ in range(2))
        srq.post(target.sge(0, 100))
        srq.post(memory.sge(0, 100))
        first[0].send(b"paged")
        event = pagers[1].fault()
        second[0].send(b"not paged")
        right.settle()
        (done,) = second[1].cq.drain()
        assert memory.read(0, 9) == b"not paged"
        assert done.wqe_counter == 1
        target.bring_in()
        pagers[1].must_resume(event)
        (done,) = first[1].cq.drain()
        assert done.wqe_counter == 0
        assert target.read(0, 5) == b"paged"

    def test_request_of_a_destroyed_queue_pair_goes_to_the_next(self, ends, pagers):
        left, right = ends
        srq = right.shared_queue()
        target = PagedRegion(pagers[1], 4096)
        first, second = (_shared(left, right, srq) for _ in range(2))
        srq.post(target.sge(0, 100))
        first[0].send(b"lost")
        assert pagers[1].fault()
        first[1].destroy()
        target.bring_in()
        second[0].send(b"found")
        right.settle()
        (done,) = second[1].cq.drain()
        assert (done.opcode, done.wqe_counter) == (CqeOpcode.RESP_SEND, 0)
        assert target.read(0, 5) == b"found"

    def test_datagram_waits(self, ends, pagers):
        left, right = ends
        srq, target = right.shared_queue(), PagedRegion(pagers[1], 4096)
        sender, receiver = left.queue_pair(UD), right.queue_pair(UD, srq=srq)
        for qp in (sender, receiver):
            qp.init(q_key=7, mtu=5, log_msg_max=12)
            qp.to_rtr(mtu=0, log_msg_max=0)
            qp.to_rts(0x10)
        srq.post(target.sge(0, 200))
        srq.post(target.sge(200, 200))
        to = {"dqp_dct": receiver.qpn, "rlid": right.lid, "key": 7 << 32}
        sender.datagram(to, b"kept")
        event = pagers[1].fault()
        sender.datagram(to, b"dropped while the first one waits")
        assert pagers[1].faults() == []
        target.bring_in()
        pagers[1].must_resume(event)
        (done,) = receiver.cq.drain()
        assert (done.wqe_counter, done.byte_cnt) == (0, 44)
        assert target.read(40, 4) == b"kept"


def _shared(left, right, srq):
    pair = left.queue_pair(), right.queue_pair(srq=srq)
    connect(*pair)
    return pair


class TestImplicit:
    @pytest.fixture
    def parent(self, channel, pagers):
        return ImplicitKey(pagers[1])

    def test_children_come_and_go(self, channel, pagers, parent, pinned, is_memory):
        """Both the parent's entry and the child's page may be absent; the event says the same."""
        va = 2 * (1 << parent.log_child) - 100
        channel.write((parent.key, va), pinned[0].sge(0, 300))
        children = [parent.child(number) for number in (1, 2)]
        steps = [
            (0, lambda: parent.put(1, children[0].key)),
            (0, children[0].bring_in),
            (100, lambda: parent.put(2, children[1].key)),
            (100, children[1].bring_in),
        ]
        for done, step in steps:
            event = pagers[1].fault()
            expected = RDMA, {"r_key": parent.key, "va": va, "length": 300}
            start = va + done & -4096
            end = -(-(va + 300) // 4096) * 4096
            check_event(event, is_memory, expected, (parent.key, start, end - start))
            step()
            pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert children[0].read(-100 % (1 << parent.log_child), 100) == TEXT[:100]
        assert children[1].read(0, 200) == TEXT[100:300]
        parent.put(1)
        channel.write((parent.key, va), pinned[0].sge(0, 50))
        event = pagers[1].fault()
        parent.put(1, children[0].key)
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1

    def test_local_use(self, channel, pagers, pinned, is_memory):
        parent = ImplicitKey(pagers[0])
        child = parent.child(3)
        child.write(TEXT)
        channel.post_recv(pinned[1].sge())
        channel.send((1000, parent.key, child.va + 8))
        event = pagers[0].fault()
        expected = WQE, {"type": SEND_OR_WRITE, "number": channel.sender.qpn}
        check_event(event, is_memory, expected, (parent.key, child.va, 4096))
        child.bring_in()
        parent.put(3, child.key)
        pagers[0].must_resume(event)
        assert pinned[1].read(0, 1000) == TEXT[8:1008]

    def test_a_child_that_may_not_be_written(self, channel, parent, pinned):
        """Nothing is absent, so nothing is asked of the driver."""
        node, va = parent.node, 1 << parent.log_child
        child = node.region(4096, va=va, lw=0, rw=0, a=0)
        parent.put(1, child.key)
        raised = node.hca.page_faults.raised
        channel.write((parent.key, va), pinned[0].sge(0, 100))
        assert channel.failure() == REMOTE
        assert node.hca.page_faults.raised == raised

    def test_beyond_the_last_child(self, channel, parent, pinned):
        """No driver can bring that in."""
        end = parent.CHILDREN << parent.log_child
        channel.write((parent.key, end), pinned[0].sge(0, 100))
        assert channel.failure() == REMOTE


class TestNullKey:
    """Outside an implicit key, the null key is memory that holds nothing."""

    @pytest.fixture
    def null(self, channel):
        return channel.left.driver.must(Op.QUERY_SPECIAL_CONTEXTS).null_mkey

    def test_reads_as_zeros(self, channel, null, pinned):
        pinned[1].write(TEXT)
        channel.post_recv(pinned[1].sge())
        channel.send((9000, null, 0x1234))
        channel.settle()
        assert len(channel.sent()) == 1
        assert pinned[1].read(0, 9100) == bytes(9000) + TEXT[9000:9100]

    def test_swallows_what_is_written(self, channel, null, pinned):
        pinned[1].write(TEXT)
        for _ in range(2):
            channel.read((pinned[1].key, pinned[1].va), (9000, null, 0))
        channel.settle()
        assert len(channel.sent()) == 2

    def test_in_another_keys_list(self, channel, null, pinned):
        """Nobody is asked for a page there."""
        pinned[0].write(TEXT)
        key = indirect_key(
            channel.left, AccessMode.KLMS, [(100, null, 0), (50, pinned[0].key, pinned[0].va)], 150
        )
        channel.post_recv(pinned[1].sge())
        channel.send((150, key, 0))
        channel.settle()
        assert len(channel.sent()) == 1
        assert pinned[1].read(0, 150) == bytes(100) + TEXT[:50]

    @pytest.mark.parametrize("limits", [{"null_mkey": 0}])
    def test_only_where_there_is_one(self, limits, channel, null):
        assert null == 0
        channel.send((100, 2 << 8, 0))
        assert channel.failure() == PROT
