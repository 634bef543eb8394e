"""A driver that resumes every page fault and never brings a page in: one queue pair waits for ever.

That is its own affair. What others ask of the device, and what the driver takes apart, goes on.
"""

import logging

import pytest
from helpers.device.paging import IN_BOTH_SCHEMES

from emu.device.rounds.sizes import QUEUES_PER_ROUND
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.connect import connect
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpType

RC = QpType.RC
MILLISECOND = 1_000_000
MAX_RESUMES = 1000
"""How often the same fault is resumed before the log says so once."""

pytestmark = [pytest.mark.hostile, pytest.mark.usefixtures("scheme"), IN_BOTH_SCHEMES]


@pytest.fixture
def pager(node):
    return Pager(node)


@pytest.fixture
def source(pager):
    return PagedRegion(pager, 8192)


@pytest.fixture
def room(node):
    return node.region(8192)


def _writing(channel, region, room):
    channel.write((region.key, region.va), room.sge(0, 64))


def _sending(channel, region, room):
    channel.post_recv(room.sge())
    channel.send(region.sge(0, 64))


class TestDriverThatNeverMaps:
    """It resumes every fault and brings nothing in: its queue pair waits, and nothing else does."""

    @pytest.fixture(params=[_sending, _writing])
    def begin(self, request):
        return request.param

    @pytest.fixture
    def times(self):
        """How often it resumes: beyond what the device notices."""
        return MAX_RESUMES + 10

    @pytest.fixture
    def stuck(self, times, begin, ends, caplog):
        """A channel over one function or two, after many resumes, and the event of the moment."""
        caplog.set_level(logging.WARNING)
        channel = Channel(RC, *ends)
        far = ends[0] if begin is _sending else ends[1]
        pager = Pager(far)
        region = PagedRegion(pager, 8192)
        begin(channel, region, (ends[1] if begin is _sending else ends[0]).region(8192))
        event = pager.fault()
        for _ in range(times):
            pager.must_resume(event)
            event = pager.fault()
        return channel, pager, region, event

    @pytest.mark.parametrize("times", [2 * MAX_RESUMES + 10], ids=["twice as often"])
    def test_one_line_names_the_queue_pair(self, stuck, begin, caplog):
        channel, _, region, _ = stuck
        (record,) = [found for found in caplog.get_records("setup") if found.name.startswith("emu")]
        qpn = (channel.sender if begin is _sending else channel.receiver).qpn
        assert record.levelno == logging.WARNING
        assert f"qp {qpn:#x}: the driver has resumed this page fault {MAX_RESUMES} times" in (
            record.message
        )
        assert f"key {region.key:#x}" in record.message

    def test_it_still_may_come(self, stuck):
        channel, pager, region, event = stuck
        region.bring_in()
        pager.must_resume(event)
        assert len(channel.sent()) == 1

    def test_destroyed(self, stuck, begin, ends):
        channel, pager, _, event = stuck
        (channel.sender if begin is _sending else channel.receiver).destroy()
        assert not len(pager.node.hca.page_faults)
        assert pager.resume(event) == Status.OK
        assert pager.faults() == []


class TestFairness:
    def test_others_go_on(self, node, pager, source, room):
        """Between two rounds of resumes, every request of others and every command is done."""
        stuck = [Channel(RC, node, node) for _ in range(2 * QUEUES_PER_ROUND)]
        for channel in stuck:
            channel.write((source.key, source.va), room.sge(0, 64))
        other = Channel(RC, node, node)
        events = pager.faults()
        assert len(events) == len(stuck)
        for number in range(20):
            for event in events:
                pager.must_resume(event)
            events = pager.faults()
            assert len(events) == len(stuck)
            other.post_recv(room.sge())
            other.send(b"unmoved %d" % number)
            other.settle()
            assert len(other.sent()) == len(other.received()) == 1
            node.driver.must(Op.QUERY_SPECIAL_CONTEXTS)


class TestFullEventQueue:
    def test_faults_that_cannot_be_told_share_one_timer(self, node, clock, source):
        """However many wait, and however often they come and go, for a queue nobody empties."""
        Pager(node, log_size=1)
        channels = [Channel(RC, node, node) for _ in range(20)]
        before = clock.waiting()
        for _ in range(5):
            for channel in channels:
                channel.write((source.key, source.va), b"x")
            node.settle()
            assert clock.waiting() <= before + 1
            assert len(node.hca.page_faults.unreported) <= len(channels)
            for channel in channels:
                for qp in (channel.sender, channel.receiver):
                    qp.to_reset()
                connect(channel.sender, channel.receiver)
        clock.advance(2 * MILLISECOND)
        assert not node.hca.page_faults.unreported
