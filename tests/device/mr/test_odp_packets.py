"""Page faults between functions that exchange packets: pages that go while a message is under way.

Neither end counts a retry for them: the queue pairs here have none to give.
"""

import pytest
from helpers.device.paging import IN_BOTH_SCHEMES
from helpers.device.unawaited import begin

from emu.device.models.capabilities import ALL_TRANSPORT_ODP
from emu.device.port.ib.framing import parse
from emu.device.state.held import MAX_HELD
from emu.driver.keys.paging import READ, PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import PageFaultSubtype
from layouts.enums.qp import QpState, QpType
from layouts.wire.bth import PacketKind

PAGE_TIMEOUT_NS = 100_000_000
"""How long a responder waits for a page before it asks to come again."""
MAP_AHEAD_BYTES = 1 << 18
"""How much of a long message is translated at a time."""
MTU = 1024
SIZE = 16 * MTU
TEXT = bytes(range(1, 252)) * 66


@pytest.fixture
def channel(packet_pair):
    return Channel(QpType.RC, *packet_pair, retry_count=0, rnr_retry=0)


@pytest.fixture
def pagers(packet_pair):
    return [Pager(node) for node in packet_pair]


@pytest.fixture
def near(channel, pagers):
    return _region(pagers[0])


@pytest.fixture
def far(channel, pagers):
    return _region(pagers[1])


def _region(pager):
    region = PagedRegion(pager, SIZE)
    region.bring_in()
    region.write(TEXT[:SIZE])
    return region


@pytest.fixture
def plain(channel):
    """Memory at either end that is always there."""
    regions = [node.region(SIZE) for node in (channel.left, channel.right)]
    for region in regions:
        region.write(TEXT[SIZE // 2 : SIZE] * 2)
    return regions


@pytest.fixture
def when(packet_wire):
    """Calls a function when the given packet, counted from 1, of a kind comes by."""

    def arrange(kind, number, action):
        left = [number]

        def tap(frame):
            if parse(memoryview(frame)).op.kind is kind:
                left[0] -= 1
                if not left[0]:
                    action()
            return [frame]

        packet_wire.tap = tap

    return arrange


def zap(region, index):
    """What a UMR in another queue pair would do at this moment."""
    region.rights[index] = 0
    mkey = region.node.hca.mkeys.get(region.index)
    mkey.write_translations(index * 8, bytes(8))


@IN_BOTH_SCHEMES
@pytest.mark.usefixtures("scheme")
class TestCommitted:
    """The event says how many bytes are transferred; nobody needs the pages of those any more.

    In each test the first page goes with the one that is missed, and stays away.
    """

    @pytest.fixture
    def lost(self, when, packet_wire):
        """Takes two pages of a region away when the sixth packet of a kind comes by."""

        def arrange(kind, region):
            when(kind, 6, lambda: [zap(region, index) for index in (0, 2)])
            packet_wire.room = 3

        return arrange

    def check(self, pager, region, **expected):
        """The event of the third page's start, and the message that goes on from there."""
        event = pager.fault()
        if event.subtype is PageFaultSubtype.MEMORY:
            assert (event.r_key, event.va, event.length) == (region.key, region.va + 8192, 4096)
        else:
            assert event.committed == 8192
            assert {name: getattr(event, name) for name in expected} == expected
        region.bring_in(2)
        pager.must_resume(event)
        assert pager.faults() == []

    def test_source_of_a_write(self, channel, pagers, near, plain, lost):
        lost(PacketKind.WRITE, near)
        index = channel.write((plain[1].key, plain[1].va), near.sge())
        self.check(pagers[0], near, number=channel.sender.qpn, wqe_index=index)
        assert len(channel.sent()) == 1
        assert plain[1].read() == near.read()

    def test_room_for_a_read(self, channel, pagers, near, plain, lost):
        lost(PacketKind.READ_RESPONSE, near)
        index = channel.read((plain[1].key, plain[1].va), near.sge())
        self.check(pagers[0], near, number=channel.sender.qpn, wqe_index=index)
        assert len(channel.sent()) == 1
        assert near.read() == plain[1].read()

    def test_target_of_a_write(self, channel, pagers, far, plain, lost):
        lost(PacketKind.WRITE, far)
        channel.write((far.key, far.va), plain[0].sge())
        whole = {"r_key": far.key, "va": far.va, "length": SIZE, "packet_length": MTU}
        self.check(pagers[1], far, **whole)
        assert len(channel.sent()) == 1
        assert far.read() == plain[0].read()

    def test_data_of_a_read(self, channel, pagers, far, plain, lost):
        lost(PacketKind.READ_RESPONSE, far)
        channel.read((far.key, far.va), plain[0].sge())
        whole = {"r_key": far.key, "va": far.va, "length": SIZE, "packet_length": MTU}
        self.check(pagers[1], far, **whole)
        assert len(channel.sent()) == 1
        assert plain[0].read() == far.read()

    def test_segments_of_a_receive_request(self, channel, pagers, far, plain, lost):
        """What counts is the message, across the segments."""
        lost(PacketKind.SEND, far)
        channel.post_recv(far.sge(0, 8000), far.sge(8000, SIZE - 8000))
        channel.send(plain[0].sge())
        self.check(pagers[1], far, number=channel.receiver.qpn, wqe_index=0)
        assert len(channel.sent()) == len(channel.received()) == 1
        assert far.read() == plain[0].read()

    def test_segments_of_a_send(self, channel, pagers, near, plain, lost):
        lost(PacketKind.SEND, near)
        channel.post_recv(plain[1].sge())
        channel.send(near.sge(0, 5000), near.sge(5000, SIZE - 5000))
        self.check(pagers[0], near, number=channel.sender.qpn)
        assert len(channel.sent()) == len(channel.received()) == 1
        assert plain[1].read() == near.read()

    def test_short_last_packet(self, channel, pagers, far, plain, when, packet_wire):
        when(PacketKind.WRITE, 6, lambda: zap(far, 2))
        channel.write((far.key, far.va), plain[0].sge(0, 8200))
        self.check(pagers[1], far, length=8200, packet_length=8)
        assert far.read(0, 8200) == plain[0].read(0, 8200)

    def test_wire_with_signatures(self, channel, pagers, far, plain, when):
        """Their bytes count on the wire, and not for the driver: all pages are asked for."""
        channel.right.hca.has_signatures = True
        when(PacketKind.WRITE, 6, lambda: zap(far, 2))
        channel.write((far.key, far.va), plain[0].sge())
        event = pagers[1].fault()
        assert event.committed == 0
        far.bring_in(2)
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1

    def test_nothing_is_committed_before_the_first_packet(self, channel, pagers, near, plain):
        """All pages are looked for before a message begins: it does begin with its first byte."""
        near.take_away(0, 2)
        channel.write((plain[1].key, plain[1].va), near.sge())
        event = pagers[0].fault()
        assert event.committed == 0
        near.bring_in(0)
        pagers[0].must_resume(event)
        event = pagers[0].fault()
        assert event.committed == 0
        near.bring_in(2)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1


@pytest.mark.parametrize("first", [10, 70])
def test_a_read_waits_for_pages_as_long_as_it_takes(packet_pair, pagers, clock, first):
    """Absent pages are found at the request, or when data of a long READ are sent."""
    channel = Channel(QpType.RC, *packet_pair, retry_count=1, rnr_retry=7)
    size = 2 * MAP_AHEAD_BYTES
    far, here = PagedRegion(pagers[1], size), channel.left.region(size)
    far.bring_in()
    text = bytes(range(256)) * (size // 256)
    far.write(text)
    zap(far, first)
    channel.read((far.key, far.va), here.sge())
    channel.settle()
    for _ in range(1000):
        clock.advance(PAGE_TIMEOUT_NS // 20)
        channel.settle()
    assert channel.sent() == []
    (fault,) = pagers[1].faults()
    far.bring_in(first)
    pagers[1].must_resume(fault)
    channel.settle()
    clock.advance(1_000_000_000)
    channel.settle()
    (done,) = channel.sent()
    assert done.syndrome == 0
    assert here.read() == text


def test_a_queue_pair_that_has_failed_waits_for_no_page(
    channel, pagers, far, plain, when, packet_wire
):
    """It still sends the data that it has promised, as far as they are there."""

    def fail():
        begin(channel.right.driver, (Op._2ERR_QP, {"qpn": channel.receiver.qpn}))
        channel.right.function.run()
        zap(far, 2)

    when(PacketKind.READ_RESPONSE, 6, fail)
    packet_wire.room = 3
    channel.read((far.key, far.va), plain[0].sge())
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
    assert pagers[1].faults() == []


class TestAhead:
    """A long message looks for more pages than its next packet needs."""

    def test_nothing_is_written_after_its_queue_pair_has_failed(self, channel):
        source, target = (
            node.region(2 * MAP_AHEAD_BYTES) for node in (channel.left, channel.right)
        )
        source.write(b"\xff" * (2 * MAP_AHEAD_BYTES))
        mkey = channel.right.hca.mkeys.get(target.key >> 8)
        gone = MAP_AHEAD_BYTES // 4096 + 2
        mkey.write_translations(8 * gone, (1 << 51 | 3).to_bytes(8, "big"))
        channel.write((target.key, target.va), source.sge())
        assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
        assert target.read(0, MAP_AHEAD_BYTES) == b"\xff" * MAP_AHEAD_BYTES
        assert not any(target.read(MAP_AHEAD_BYTES, 4096))


class TestRequester:
    def test_memory_that_is_no_longer_there_is_no_page_to_wait_for(
        self, channel, pagers, near, plain, when
    ):
        def lose():
            mkey = channel.left.hca.mkeys.get(near.index)
            mkey.write_translations(3 * 8, (1 << 51 | 3).to_bytes(8, "big"))

        when(PacketKind.WRITE, 2, lose)
        channel.left.hca.wire.room = 3
        channel.write((plain[1].key, plain[1].va), near.sge())
        assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
        assert pagers[0].faults() == []

    def test_room_for_a_read_that_is_no_longer_there(self, channel, pagers, near, plain, when):
        lose = channel.left.hca.mkeys.get(near.index).invalidate
        when(PacketKind.READ_RESPONSE, 2, lose)
        channel.read((plain[1].key, plain[1].va), near.sge())
        assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
        assert pagers[0].faults() == []

    def test_nothing_is_sent_while_the_room_for_a_read_is_away(
        self, channel, pagers, near, plain, when, packet_wire
    ):
        when(PacketKind.READ_RESPONSE, 1, lambda: zap(near, 0))
        channel.read((plain[1].key, plain[1].va), near.sge(0, 8))
        event = pagers[0].fault()
        before = packet_wire.sent
        channel.write((plain[1].key, plain[1].va), plain[0].sge(0, 8))
        channel.settle()
        assert packet_wire.sent == before
        near.bring_in(0)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 2

    def test_source_of_a_write_goes(self, channel, pagers, near, plain, when):
        when(PacketKind.WRITE, 2, lambda: zap(near, 3))
        channel.sender.node.hca.wire.room = 3
        channel.write((plain[1].key, plain[1].va), near.sge())
        event = pagers[0].fault()
        assert channel.sent() == []
        near.bring_in(3)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1
        assert plain[1].read() == near.read()

    def test_room_for_a_read_goes(self, channel, pagers, near, plain, when):
        when(PacketKind.READ_RESPONSE, 2, lambda: zap(near, 2))
        channel.read((plain[1].key, plain[1].va), near.sge())
        event = pagers[0].fault()
        assert channel.sent() == []
        near.bring_in(2)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1
        assert near.read() == plain[1].read()

    @pytest.mark.usefixtures("scheme")
    @pytest.mark.parametrize("scheme", [ALL_TRANSPORT_ODP], ids=["all operations"])
    def test_room_for_an_atomic_goes(self, channel, pagers, near, plain, when):
        """It has been carried out; its answer is asked for again and it is not repeated."""
        plain[1].write(bytes(8))
        when(PacketKind.ATOMIC_ACKNOWLEDGE, 1, lambda: zap(near, 0))
        channel.fetch_add((plain[1].key, plain[1].va), near.sge(0, 8), 3)
        event = pagers[0].fault()
        near.bring_in(0)
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1
        assert near.read(0, 8) == bytes(8)
        assert plain[1].read(0, 8) == (3).to_bytes(8, "little")

    @pytest.mark.parametrize("kind", [PacketKind.WRITE, PacketKind.READ_RESPONSE])
    def test_refused(self, channel, pagers, near, plain, when, kind):
        when(kind, 2, lambda: zap(near, 3))
        channel.sender.node.hca.wire.room = 3
        operation = channel.write if kind is PacketKind.WRITE else channel.read
        operation((plain[1].key, plain[1].va), near.sge())
        pagers[0].must_resume(pagers[0].fault(), error=True)
        assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
        assert channel.sender.state is QpState.ERR

    def test_earlier_requests_complete_while_one_waits(self, channel, pagers, near, plain):
        near.take_away()
        channel.write((plain[1].key, plain[1].va), plain[0].sge())
        channel.write((plain[1].key, plain[1].va), near.sge())
        event = pagers[0].fault()
        assert len(channel.sent()) == 1
        near.bring_in()
        pagers[0].must_resume(event)
        assert len(channel.sent()) == 1


class TestResponder:
    def test_packets_that_come_meanwhile_are_kept(self, channel, pagers, far, plain, packet_wire):
        far.take_away()
        channel.post_recv(far.sge())
        channel.send(plain[0].sge())
        event = pagers[1].fault()
        sent = packet_wire.sent
        far.bring_in()
        pagers[1].must_resume(event)
        assert len(channel.sent()) == 1
        assert far.read() == plain[0].read()
        assert packet_wire.sent - sent <= 4, "only acknowledgements were needed"

    @pytest.mark.parametrize("at", [1, 2, 16])
    def test_room_goes_in_the_middle(self, channel, pagers, far, plain, when, at):
        when(PacketKind.SEND, at, lambda: [zap(far, index) for index in range(4)])
        channel.post_recv(far.sge())
        channel.send(plain[0].sge())
        event = pagers[1].fault()
        assert channel.received() == []
        far.bring_in()
        pagers[1].must_resume(event)
        assert len(channel.sent()) == len(channel.received()) == 1
        assert far.read() == plain[0].read()

    @pytest.mark.parametrize("refused", [False, True])
    def test_data_of_a_read_go_in_the_middle(self, channel, pagers, far, plain, when, packet_wire,
                                             refused):  # fmt: skip
        when(PacketKind.READ_RESPONSE, 1, lambda: zap(far, 3))
        packet_wire.room = 3
        channel.read((far.key, far.va), plain[0].sge())
        event = pagers[1].fault()
        assert channel.sent() == []
        far.bring_in(rights=READ)
        pagers[1].must_resume(event, error=refused)
        if refused:
            assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR
        else:
            assert len(channel.sent()) == 1
            assert plain[0].read() == far.read()

    def test_a_flood_is_not_kept(self, channel, pagers, far, plain, packet_wire):
        far.take_away()
        frames = []
        packet_wire.tap = lambda frame: frames.append(frame) or [frame]
        channel.post_recv(far.sge())
        channel.send(plain[0].sge())
        event = pagers[1].fault()
        for _ in range(2 * MAX_HELD):
            packet_wire.arrive(frames[1])
        link = channel.right.hca.qps.get(channel.receiver.qpn).connection
        assert len(link.responder._held.packets) == MAX_HELD
        far.bring_in()
        pagers[1].must_resume(event)
        assert far.read() == plain[0].read()

    def test_error_state_forgets_what_was_kept(self, channel, pagers, far, plain):
        far.take_away()
        channel.post_recv(far.sge())
        channel.send(plain[0].sge())
        assert pagers[1].fault()
        channel.receiver.to_error()
        (done,) = channel.recv_cq.drain()
        assert done.syndrome == CqeSyndrome.WR_FLUSH_ERR


class TestPatience:
    """A page that does not come for long costs the requester an RNR retry, not its own timeout."""

    @pytest.fixture
    def waiting(self, channel, pagers, far, plain):
        far.take_away()
        channel.write((far.key, far.va), plain[0].sge())
        return pagers[1].fault()

    @pytest.fixture
    def rnr_retry(self):
        return 7

    @pytest.fixture
    def channel(self, packet_pair, rnr_retry):
        return Channel(QpType.RC, *packet_pair, retry_count=0, rnr_retry=rnr_retry, ack_timeout=18)

    def test_a_page_that_takes_seconds(self, channel, pagers, far, plain, waiting, clock):
        for _ in range(50):
            clock.advance(PAGE_TIMEOUT_NS)
            channel.settle()
        far.bring_in()
        pagers[1].must_resume(waiting)
        for _ in range(50):
            clock.advance(PAGE_TIMEOUT_NS)
            channel.settle()
        assert len(channel.sent()) == 1
        assert far.read() == plain[0].read()

    @pytest.mark.parametrize("rnr_retry", [0])
    def test_requester_without_rnr_retries(self, channel, waiting, clock, rnr_retry):
        clock.advance(PAGE_TIMEOUT_NS)
        assert channel.failure() == CqeSyndrome.RNR_RETRY_EXC_ERR
