"""Page faults and everything that may go wrong about them: drivers that resume badly, or never."""

import pytest

from emu.device.models.capabilities import MEMORY_ODP, TRANSPORT_ODP
from emu.driver.keys.paging import PagedRegion, Pager, resume_info
from emu.driver.keys.umr import FastRegKey, MemoryWindow, umr
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import PageFaultSubtype
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

RC, UD, XRC = QpType.RC, QpType.UD, QpType.XRC
PROT, REMOTE = CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.REMOTE_ACCESS_ERR
MILLISECOND = 1_000_000


@pytest.fixture
def scheme():
    return TRANSPORT_ODP


@pytest.fixture
def pager(node):
    return Pager(node)


@pytest.fixture
def channel(node):
    return Channel(RC, node, node)


@pytest.fixture
def source(pager):
    region = PagedRegion(pager, 8192)
    region.write(b"out of the cold " * 512)
    return region


@pytest.fixture
def room(node):
    return node.region(8192)


@pytest.fixture
def sending(channel, source, room, pager):
    """A send that waits for its page: the event."""
    channel.post_recv(room.sge())
    channel.send(source.sge(0, 64))
    return pager.fault()


@pytest.fixture
def writing(channel, source, room, pager):
    """A write whose target is absent: the event."""
    channel.write((source.key, source.va), room.sge(0, 64))
    return pager.fault()


class TestResume:
    """Each leaves the fault open, and the right resume still works."""

    @pytest.fixture(autouse=True)
    def and_it_goes_on(self, sending, channel, source, pager):
        yield
        source.bring_in()
        pager.must_resume(sending)
        assert len(channel.sent()) == 1
        assert pager.resume(sending) == Status.BAD_RES_ERR

    def test_wrong_token(self, sending, pager):
        assert pager.resume(sending, fault_token=sending.token + 1) == Status.BAD_RES_ERR
        assert pager.resume(sending, fault_token=0) == Status.BAD_RES_ERR

    def test_wrong_queue_pair(self, sending, pager, channel):
        assert pager.resume(sending, wq_number=channel.receiver.qpn) == Status.BAD_PARAM_ERR

    @pytest.mark.parametrize("kind", [0, 2, 3, 4, 6, 7])
    def test_wrong_type(self, sending, pager, kind):
        assert pager.resume(sending, page_fault_type=kind, error=True) == Status.BAD_PARAM_ERR

    def test_wrong_number_of_an_rdma(self, sending, node, pager):
        other, target = Channel(RC, node, node), PagedRegion(pager, 4096)
        other.write((target.key, target.va), b"x")
        event = pager.fault()
        assert event.subtype is PageFaultSubtype.RDMA
        wrong = other.receiver.qpn + 1 << 8
        assert pager.resume(event, wq_number=wrong & 0xFFFFFF) == Status.BAD_PARAM_ERR
        target.bring_in()
        pager.must_resume(event)
        assert len(other.sent()) == 1


class TestMemoryScheme:
    @pytest.fixture
    def scheme(self):
        return MEMORY_ODP

    def test_wrong_token_and_twice(self, sending, source, pager, channel):
        for token in (sending.token + 1, sending.token + (1 << 32), (1 << 48) - 1, 0):
            assert pager.resume(sending, token=token) == Status.BAD_RES_ERR
        source.bring_in()
        assert pager.resume(sending) == Status.OK
        assert pager.resume(sending) == Status.BAD_RES_ERR
        assert len(channel.sent()) == 1

    def test_error(self, sending, pager, channel):
        pager.must_resume(sending, error=True)
        assert channel.failure() == PROT

    def test_a_driver_that_does_not_choose_it_has_the_transport_scheme(self, function):
        caps = function.hca.caps.odp
        assert not caps.mem_page_fault
        assert caps.transport_page_fault_scheme_cap.rc_odp_caps.send

    def test_key_below_a_window_is_named(self, node, pager, channel, room):
        """The event names the key that translates, not the one that was asked for."""
        region, window = PagedRegion(pager, 8192), MemoryWindow(node, 1)
        window.bind(channel.receiver, region, 0, 8192)
        node.settle()
        channel.write((window.key, region.va + 4096), room.sge(0, 64))
        event = pager.fault()
        assert (event.r_key, event.va, event.length) == (region.key, region.va + 4096, 4096)
        region.bring_in()
        pager.must_resume(event)
        assert len(channel.sent()) == 1


@pytest.mark.parametrize(
    ("scheme", "reserved"),
    [(TRANSPORT_ODP, 0x7800_0000_FF00_0000), (MEMORY_ODP, 0x7FFF << 48)],
    ids=["transport", "memory"],
)
@pytest.mark.usefixtures("scheme")
def test_reserved_bits_of_a_resume_are_ignored(sending, node, source, channel, reserved):
    source.bring_in()
    info = int.from_bytes(resume_info(sending), "big") | reserved
    node.driver.must(Op.PAGE_FAULT_RESUME, page_fault_info=info.to_bytes(8, "big"))
    node.settle()
    assert len(channel.sent()) == 1


def test_no_timeout_runs_while_the_peer_waits_for_a_page(pair, clock):
    """Neither a doorbell nor a link that is down for a while counts as a retry."""
    left, right = pair
    channel = Channel(RC, *pair, ack_timeout=8, retry_count=0)
    pager, room = Pager(right), left.region(4096)
    target = PagedRegion(pager, 4096)
    channel.write((target.key, target.va), room.sge(0, 64))
    event = pager.fault()
    set_link(right.hca, up=False)
    channel.write((target.key, target.va), room.sge(0, 64))
    channel.settle()
    clock.advance(1000 * MILLISECOND)
    channel.settle()
    set_link(right.hca, up=True)
    target.bring_in()
    pager.must_resume(event)
    assert len(channel.sent()) == 2


class TestStopping:
    def test_destroyed_queue_pair(self, sending, channel, pager):
        """The driver sends no resume for a queue that it does not find: nothing is left over."""
        channel.sender.destroy()
        assert not len(pager.node.hca.page_faults)
        assert pager.resume(sending) == Status.OK
        assert pager.resume(sending) == Status.BAD_RES_ERR

    def test_reset_and_used_again(self, node, sending, channel, pager, room):
        sender, receiver = channel.sender, channel.receiver
        sender.to_reset()
        sender.init().to_rtr(node.lid, receiver.qpn, 0xFFFFF0).to_rts(0x10)
        channel.send(b"fresh")
        channel.settle()
        assert room.read(0, 5) == b"fresh"
        assert pager.resume(sending, error=True) == Status.OK
        assert channel.sender.state is QpState.RTS

    def test_error_state_flushes(self, sending, channel, pager):
        channel.sender.to_error()
        (done,) = channel.sender.cq.drain()
        assert done.syndrome == CqeSyndrome.WR_FLUSH_ERR
        assert pager.resume(sending) == Status.OK

    def test_responder_destroyed(self, writing, channel, pager, clock):
        """The requester asks on, and gives up in its own time."""
        channel.receiver.destroy()
        for _ in range(16):
            clock.advance(300 * MILLISECOND)
            channel.settle()
        assert channel.failure() == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR

    def test_requester_gone_before_the_responder_is_resumed(self, writing, channel, pager, source):
        channel.sender.to_error()
        source.bring_in()
        pager.must_resume(writing)
        assert channel.receiver.state is QpState.RTS
        assert source.read(0, 5) == b"out o"

    def test_requester_gone_before_the_responder_is_refused(self, writing, channel, pager):
        channel.sender.to_error()
        pager.must_resume(writing, error=True)
        assert channel.receiver.state is QpState.ERR

    @pytest.mark.parametrize("how", ["destroyed", "free"])
    def test_key_goes_meanwhile(self, node, sending, channel, pager, source, how):
        if how == "free":
            node.hca.mkeys.get(source.index).invalidate()
        else:
            node.driver.must(Op.DESTROY_MKEY, mkey_index=source.index)
        pager.must_resume(sending)
        assert channel.failure() == PROT

    def test_remote_key_goes_meanwhile(self, node, writing, channel, pager, source):
        node.driver.must(Op.DESTROY_MKEY, mkey_index=source.index)
        pager.must_resume(writing)
        assert channel.failure() == REMOTE

    def test_a_driver_that_never_resumes(self, node, sending, channel, pager, clock):
        """The queue pair waits, however long; nothing else does."""
        clock.advance(3_600_000 * MILLISECOND)
        node.settle()
        assert channel.sender.state is QpState.RTS
        assert channel.sent() == []
        other, memory = Channel(RC, node, node), node.region(64)
        other.post_recv(memory.sge())
        other.send(b"alive")
        other.settle()
        assert len(other.sent()) == 1

    def test_event_queue_goes_first(self, node, sending, writing_elsewhere, channel, pager):
        """As when the driver is unloaded: nobody is left to resume, so what waits fails."""
        node.driver.destroy_eq(pager.eqn)
        node.settle()
        assert channel.failure() == PROT
        assert writing_elsewhere.failure() == REMOTE
        assert not len(node.hca.page_faults)

    @pytest.fixture
    def writing_elsewhere(self, node, sending, pager, source):
        other = Channel(RC, node, node)
        other.write((source.key, source.va), b"x")
        assert pager.fault()
        return other

    def test_reset_of_the_function(self, function, node, sending, writing_elsewhere):
        function.reset()
        assert not len(function.hca.page_faults)
        function.run()

    def test_message_of_a_function_that_is_reset_does_not_go_on(self, pair):
        """Its queue pairs are freed later, so they are still there when the page comes."""
        left, right = pair
        channel, pager, room = Channel(RC, *pair), Pager(right), left.region(4096)
        target = PagedRegion(pager, 4096)
        channel.write((target.key, target.va), room.sge(0, 64))
        room.write(b"late")
        event = pager.fault()
        target.bring_in()
        left.function.reset()
        right.driver.must(Op.PAGE_FAULT_RESUME, page_fault_info=resume_info(event))
        assert not left.hca.scheduler.ready
        left.settle()
        assert not any(target.read())

    def test_teardown_with_faults_open(self, node, sending, writing_elsewhere):
        node.driver.must(Op.TEARDOWN_HCA)
        assert not len(node.hca.page_faults)

    def test_tokens_of_a_driver_that_has_gone(self, node, sending, pager):
        """They mean nothing to the next one, which is told that."""
        node.driver.must(Op.TEARDOWN_HCA)
        node.driver.must(Op.INIT_HCA)
        assert pager.resume(sending) == Status.BAD_RES_ERR
        assert len(node.hca.page_faults) == 0
        assert not node.hca.ledger.accounts.get("page fault", 0)


class TestNobodyAnswers:
    """An absent page is a protection error where no fault can be raised."""

    def test_no_event_queue(self, node, channel, pager, source):
        node.driver.destroy_eq(pager.eqn)
        channel.send(source.sge(0, 64))
        assert channel.failure() == PROT

    @pytest.mark.parametrize("limits", [{"pg": 0}])
    def test_no_paging_at_all(self, channel, pager, source, limits):
        channel.send(source.sge(0, 64))
        assert channel.failure() == PROT

    @pytest.mark.parametrize(
        ("operation", "syndrome"),
        [("send", PROT), ("receive", CqeSyndrome.REMOTE_OP_ERR), ("write", REMOTE)],
    )
    def test_operation_without_the_capability(self, node, channel, pager, source, room, operation,
                                              syndrome):  # fmt: skip
        caps = node.hca.caps.odp.transport_page_fault_scheme_cap.rc_odp_caps
        setattr(caps, operation, 0)
        if operation == "send":
            channel.send(source.sge(0, 64))
        elif operation == "receive":
            channel.post_recv(source.sge())
            channel.send(b"x")
        else:
            channel.write((source.key, source.va), room.sge(0, 64))
        assert channel.failure() == syndrome
        assert pager.faults() == []

    @pytest.mark.parametrize("scheme", [TRANSPORT_ODP, MEMORY_ODP], ids=["transport", "memory"])
    @pytest.mark.parametrize("service", [RC, XRC], ids=lambda service: service.name)
    def test_atomics_as_real_adapters_offer_them(self, node, pager, source, room, service, scheme):
        """Over on-demand memory they are right as long as the page is there."""
        channel = Channel(service, node, node)
        source.bring_in()
        channel.fetch_add((source.key, source.va), room.sge(0, 8), 5)
        node.settle()
        assert len(channel.sent()) == 1
        source.take_away()
        channel.fetch_add((source.key, source.va), room.sge(0, 8), 5)
        assert channel.failure() == REMOTE
        channel = Channel(service, node, node)
        channel.fetch_add((room.key, room.va), source.sge(0, 8), 5)
        assert channel.failure() == PROT
        assert pager.faults() == []

    @pytest.mark.parametrize("scheme", [TRANSPORT_ODP, MEMORY_ODP], ids=["transport", "memory"])
    @pytest.mark.parametrize("is_shared", [False, True])
    def test_datagrams_as_real_adapters_offer_them(self, node, pager, source, room, is_shared,
                                                   scheme):  # fmt: skip
        """SEND alone: what receives them cannot wait."""
        srq = node.shared_queue() if is_shared else None
        sender, receiver = node.queue_pair(UD), node.queue_pair(UD, srq=srq)
        for qp in (sender, receiver):
            qp.init(q_key=7, mtu=5, log_msg_max=12).to_rtr(mtu=0, log_msg_max=0).to_rts()
        receiver.post_recv(source.sge(0, 200)) if srq is None else srq.post(source.sge(0, 200))
        to = {"dqp_dct": receiver.qpn, "rlid": node.lid, "key": 7 << 32}
        sender.datagram(to, room.sge(0, 64))
        node.settle()
        assert [done.syndrome for done in receiver.cq.drain()] == [PROT]
        assert pager.faults() == []

    def test_translations_of_a_umr(self, node, channel, pager, source, room):
        key = FastRegKey(node)
        umr(channel.sender, key.key, flags=0, mask=0, pointer=(64, source.key, source.va),
            octwords=4)  # fmt: skip
        assert channel.failure() == PROT


class TestEventQueue:
    def test_full_queue_is_looked_at_again(self, node, clock, source):
        pager = Pager(node, log_size=1)
        channels = [Channel(RC, node, node) for _ in range(4)]
        region = PagedRegion(pager, 4096)
        for number, channel in enumerate(channels):
            channel.write((region.key, region.va + number), b"x")
        events = pager.faults()
        assert len(events) == 2
        clock.advance(2 * MILLISECOND)
        events += pager.faults()
        assert len({event.token for event in events}) == 4
        region.bring_in()
        for event in events:
            pager.must_resume(event)
        assert [len(channel.sent()) for channel in channels] == [1] * 4

    def test_many_faults_have_tokens_of_their_own(self, node, pager, source):
        channels = [Channel(RC, node, node) for _ in range(20)]
        for channel in channels:
            channel.write((source.key, source.va), b"x")
        events = pager.faults()
        assert len({event.token for event in events}) == 20
        source.bring_in()
        for event in reversed(events):
            pager.must_resume(event)
        assert [len(channel.sent()) for channel in channels] == [1] * 20
