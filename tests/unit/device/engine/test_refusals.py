"""Refusals of the engine's steps that traffic seldom comes to, by what each step is given."""

from types import SimpleNamespace

import pytest
from helpers.pure import pure_only

from emu.device.engine.eth import receive as eth_receive
from emu.device.engine.mr import access, page_faults, signed_stream, special_keys
from emu.device.engine.mr import access as memory
from emu.device.engine.mr.access_error import (
    ABSENT_PAGE,
    MAX_BYTES,
    SEGMENT_BYTES,
    TOO_FRAGMENTED,
    AccessError,
)
from emu.device.engine.mr.block_signature import BSF_OCTWORDS, Syndrome
from emu.device.engine.mr.memory_stream import MemoryStream
from emu.device.engine.mr.signature import Signature
from emu.device.engine.mr.signed_stream import SignedStream
from emu.device.engine.qp import flush
from emu.device.engine.rc import duplicates, receive, responder, segments
from emu.device.engine.ud import datagram
from emu.device.engine.wqe import key_options, messages, registry, umr
from emu.device.objects.ledger import Ledger
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE, REMOTE_ATOMIC
from emu.device.objects.queues.outcome import Dropped, TooFragmented
from emu.device.objects.queues.page_fault import PageFault, Side
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.port.eth.congestion import with_mark
from emu.device.port.eth.roce.link import RoceLink
from emu.device.port.packet import BadPacketError
from emu.device.rounds.budget import STEPS_PER_ACCESS, Budget
from emu.device.state import polls
from emu.device.state.held import MAX_HELD, EarlyPackets, HeldCapacity
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, INLINE

pure_only("it hands fakes to the steps of the engine")


def some(**values):
    return SimpleNamespace(**values)


class TestRegistration:
    def test_a_queue_has_one_turn(self, monkeypatch):
        monkeypatch.setattr(polls, "POLLS", {})
        register = polls.polls(Qp)
        register(lambda hca, queue: False)
        with pytest.raises(ValueError, match="Qp already has a poll function"):
            register(lambda hca, queue: True)

    def test_an_opcode_has_one_function(self):
        with pytest.raises(ValueError, match="SEND on RC is taken"):
            registry.wqe_op(Opcode.SEND, frozenset({QpType.RC}))(lambda hca, qp, wqe: None)


class TestDataSegments:
    """A list whose segments are fine one by one, and too much together."""

    QP = some(pd=None, handle=5, st=QpType.RC)

    @pytest.fixture
    def cost(self, monkeypatch):
        """What each access to memory costs; a test changes it."""
        cost = some(steps=0)

        def find(hca, pd, qpn, lkey, span, *limits):
            hca.budget.charge(cost.steps)
            return [memoryview(bytes(span[1]))]

        monkeypatch.setattr(access, "access", find)
        return cost

    @staticmethod
    def hca(steps=0):
        hca = some(budget=Budget(), has_signatures=False, probes=some(tracer=None))
        hca.budget.charge(steps)
        return hca

    @staticmethod
    def lists(*lengths):
        return [(length, 8, 0) for length in lengths]

    def gather(self, hca, *lengths):
        wqe, lists = some(buf=b"", scattered=None), self.lists(*lengths)
        return messages.gather(hca, self.QP, wqe, lists, LOCAL_READ)[1]

    def piece(self, hca, offset, length, *lengths):
        wqe, message = some(buf=b"", scattered=None), some(segments=self.lists(*lengths))
        views = messages.memory_of(hca, self.QP, wqe, message, LOCAL_READ, offset, length)
        return [*map(len, views)]

    def test_too_long(self, cost):
        half = MAX_BYTES // 2
        assert self.gather(self.hca(), half, half) == MAX_BYTES
        with pytest.raises(AccessError, match="too_fragmented") as why:
            self.gather(self.hca(), half, half + 1)
        assert why.value.limit == MAX_BYTES

    def test_too_many_pieces(self, cost):
        cost.steps = STEPS_PER_ACCESS
        assert self.gather(self.hca(7), 1) == 1
        with pytest.raises(AccessError, match="too_fragmented") as why:
            self.gather(self.hca(7), 1, 1)
        assert why.value.limit == SEGMENT_BYTES

    def test_a_piece_is_cut_only_when_it_is_long(self, cost):
        hca, size = self.hca(), SEGMENT_BYTES
        cost.steps = STEPS_PER_ACCESS
        assert self.piece(hca, size // 2, size, size, size) == [size // 2, size // 2]
        with pytest.raises(AccessError, match="too_fragmented"):
            self.piece(hca, 0, size + 1, size, size)
        cost.steps = 1
        assert self.piece(hca, 0, size + 1, size, size) == [size, 1]

    def test_a_list_that_has_become_shorter(self, cost):
        with pytest.raises(AccessError, match="bounds"):
            self.piece(self.hca(), 4, 8, 8)

    def test_the_first_views_are_not_changed(self, cost, monkeypatch):
        """They may be a key's cached translation."""
        cached = [memoryview(b"cached")]
        monkeypatch.setattr(access, "access", lambda *arguments: cached)
        found, _ = access.segment_views(self.hca(), None, 5, self.lists(6, 6), (0, 12, LOCAL_READ))
        assert (len(found), len(cached)) == (2, 1)

    def test_a_scatter_list_is_cut_only_when_it_is_long(self, cost, monkeypatch):
        hca, size = self.hca(), SEGMENT_BYTES
        request = some(wqe=some(pd=None, segments=self.lists(size, size)))
        cost.steps = STEPS_PER_ACCESS
        receive.scatter_to(hca, self.QP, request, size // 2, size)
        found = receive.scatter_to(hca, self.QP, request, 0, size + 1)
        assert isinstance(found, TooFragmented)
        assert found.limit == SEGMENT_BYTES
        cost.steps = 1
        assert len(receive.scatter_to(hca, self.QP, request, 0, size + 1)) == 2
        monkeypatch.setattr(receive, "fail_receive_and_nak", lambda *arguments: "refused")
        assert receive.scatter_to(hca, self.QP, request, 0, 2 * size + 1) == "refused"

    def test_inline_segments_are_padded(self):
        """The next segment begins at the next 16 bytes; one without data is none."""
        inline = (INLINE | 13).to_bytes(4, "big") + b"thirteen bytes"[:13] + bytes(15)
        empty = INLINE.to_bytes(4, "big") + bytes(12)
        buf = inline + empty + DATA.pack(0, 8, 0)
        listed = messages.data_segments(some(ds=len(buf) // 16, buf=buf), 0)
        assert listed == [(13, access.INLINE_KEY, 4), (0, 8, 0)]
        span = 1, 12, LOCAL_READ
        (view,), left = access.segment_views(self.hca(), None, 5, listed, span, None, buf)
        assert (bytes(view), left) == (b"hirteen byte", 0)

    @pytest.mark.parametrize(("length", "need"), [(13, LOCAL_READ), (1, LOCAL_WRITE)])
    def test_inline_segments_that_are_refused(self, length, need):
        wqe = some(ds=1, buf=(INLINE | length).to_bytes(4, "big") + bytes(12))
        with pytest.raises(BadWqeError):
            messages.data_segments(wqe, 0, need)


class TestKeys:
    def test_null_key_gives_no_more_than_one_call_moves(self):
        hca = some(caps=some(general=some(null_mkey=1)))
        pieces = special_keys.views(hca, 5, special_keys.NULL_MKEY, (0, MAX_BYTES, LOCAL_READ), 0)
        assert sum(map(len, pieces)) == MAX_BYTES
        with pytest.raises(AccessError, match="too_fragmented"):
            special_keys.views(hca, 5, special_keys.NULL_MKEY, (0, MAX_BYTES + 1, LOCAL_READ), 0)

    def test_no_atomics_where_blocks_are_signed(self):
        with pytest.raises(AccessError) as why:
            Signature(None).views(some(), some(key=8), 5, (0, 8, REMOTE_ATOMIC), 0)
        assert why.value.violation is not TOO_FRAGMENTED

    @pytest.mark.parametrize(
        ("length", "most", "is_cut"),
        [(8, None, False), (8, 5, True), (SEGMENT_BYTES + 1, None, True)],
    )
    def test_signed_memory_in_too_many_pieces(self, monkeypatch, length, most, is_cut):
        """Only who can ask for less is told to: the block around a short piece stays as it is."""

        def outgoing(stream, at, length):
            raise AccessError(TOO_FRAGMENTED, 8, 0, length, SEGMENT_BYTES)

        monkeypatch.setattr(SignedStream, "outgoing", outgoing)
        hca, key, span = some(budget=Budget()), some(key=8, start=0), (0, length, LOCAL_READ)
        with pytest.raises(AccessError) as why:
            Signature(some(mem=None, wire=None)).views(hca, key, 5, span, 0, most)
        assert (why.value.violation is TOO_FRAGMENTED) == is_cut

    @pytest.mark.parametrize(("steps", "is_refused"), [(9, False), (10, True)])
    def test_signed_memory_whose_keys_take_many_steps(self, monkeypatch, steps, is_refused):
        """Also when one range after the other takes few."""

        def indirect(hca, mkey, span, depth, most):
            hca.budget.charge(steps)
            return [memoryview(bytes(span[1]))]

        monkeypatch.setattr(memory, "indirect", indirect)
        key = some(key=8, start=0)
        stream = MemoryStream(some(budget=Budget()), key, LOCAL_READ, 0, 9)
        if is_refused:
            with pytest.raises(AccessError, match="too_fragmented"):
                stream.outgoing(0, 8)
        else:
            assert stream.outgoing(0, 8) == bytes(8)

    def test_a_signature_of_which_no_byte_is_checked(self):
        """It is neither read nor computed."""
        state = some(blocks=some(check_mask=0))
        stream = SignedStream(some(), some(), state, 5, LOCAL_READ, some())
        assert stream._check(some(), 0, bytes(512), 0) is None

    def test_a_wrong_signature_on_a_queue_that_is_no_queue_pair(self):
        """There is no completion queue that could tell of it."""
        hca = some(qps={})
        values = 1, 2, 0
        assert (
            signed_stream._report(hca, some(key=8), 5, LOCAL_READ, Syndrome.GUARD, 0, values)
            is None
        )

    def test_page_faults_of_other_services(self):
        general = some(pg=1)
        odp = some(mem_page_fault=1, memory_page_fault_scheme_cap=some())
        events = some(subscribers={EventType.PAGE_FAULT: "eq"})
        hca = some(caps=some(general=general, odp=odp, odp_operations={}), events=events)
        assert not page_faults.may_wait(hca.events, hca.caps, some(st=QpType.QP1), "send")

    def test_signatures_are_for_lists_of_keys(self):
        """And a key keeps the one that it has, if it has one."""
        key = some(signature=None, mode=AccessMode.KSM, bsf_octwords=BSF_OCTWORDS)
        wqe = some(ds=63, buf=bytes(63 * 16))
        with pytest.raises(key_options.BindError, match="has no BSF"):
            key_options.read(None, key, wqe, True, 0, 0)
        key.mode = AccessMode.MTT
        with pytest.raises(key_options.BindError, match="lists of keys"):
            key_options.read(None, key, wqe, True, 0, BSF_OCTWORDS)

    def test_translations_without_a_data_segment(self):
        short = some(ds=umr._DATA_AT // 16, buf=bytes(umr._DATA_AT))
        with pytest.raises(BadWqeError, match="no data segment"):
            umr._translations(some(), some(), short, 0, 16)


def a_page_fault():
    return PageFault(some(), Side.RESPONDER, some(), some(), lambda why: None)


class TestReceiver:
    @pytest.mark.parametrize(("rq", "rcq"), [(None, "cq"), ("rq", None), (None, None)])
    def test_a_queue_pair_without_a_receive_queue(self, monkeypatch, rq, rcq):
        monkeypatch.setattr(receive, "invalid_request", lambda hca, qp, check, why: why)
        qp = some(st=QpType.RC, srq=None, rq=rq, rcq=rcq, waiting_receive=None)
        assert receive.check_resource(some(), qp, some()) == "no receive queue"

    @pytest.mark.parametrize(("wqe", "returned"), [("kept", ["kept"]), (None, [])])
    def test_a_kept_request_is_the_same_messages(self, wqe, returned):
        """One of another queue returns there, one that is filled already does not."""
        given = []
        srqs = some(need={7: some(queue=some(give_back=given.append))}.__getitem__)
        kept, ring = some(wqe=wqe, srqn=7), some(take=lambda: "next")
        qp = some(st=QpType.RC, srq=None, rq=ring, rcq="cq", waiting_receive=kept)
        message = some(receive=None)
        assert receive.check_resource(some(srqs=srqs), qp, message) is None
        assert (message.receive.wqe, qp.waiting_receive) == ("next", None)
        assert (kept.wqe, given) == (None, returned)

    @pytest.mark.parametrize(("rq", "rcq"), [(None, "cq"), ("rq", None), (None, None)])
    def test_a_datagram_to_one(self, monkeypatch, rq, rcq):
        monkeypatch.setattr(datagram, "_keys_match", lambda link, qp, origin: True)
        qp = some(
            st=QpType.UD, state=QpState.RTS, srq=None, rq=rq, rcq=rcq, page_faults={}, steer=None
        )
        assert not datagram.receive(some(budget=Budget(), link=None), qp, some(), some())

    @pytest.mark.parametrize(
        ("state", "faults", "why"),
        [(QpState.INIT, {}, Dropped), (QpState.RTS, {Side.RESPONDER: a_page_fault()}, PageFault)],
    )
    def test_one_that_is_not_ready(self, state, faults, why):
        assert isinstance(segments.check_ready(some(), some(state=state, page_faults=faults)), why)

    def test_reads_that_are_not_allowed_any_more(self, monkeypatch):
        """A READ's response goes on in later turns; MODIFY_QP may come between them."""
        monkeypatch.setattr(responder, "invalid_request", lambda hca, qp, check, why: why)
        refused = responder.execute_read(some(), some(rre=0), some(), 0, 8)
        assert refused == "the queue pair does not allow READs"
        assert duplicates.read_again(some(srqs={}), some(rre=0, st=QpType.RC), some(), 0, 8) is None

    @pytest.mark.parametrize(
        ("state", "may_wait", "is_held"),
        [(QpState.RTS, True, True), (QpState.RTS, False, False), (QpState.ERR, True, False)],
    )
    def test_an_absent_page_of_a_duplicate_read(self, monkeypatch, state, may_wait, is_held):
        def absent(*arguments):
            raise AccessError(ABSENT_PAGE, 8, 0, 8)

        monkeypatch.setattr(duplicates, "access", absent)
        monkeypatch.setattr(duplicates, "start_of", lambda *arguments: 0)
        monkeypatch.setattr(duplicates, "suspend_rdma", lambda *arguments: a_page_fault())
        monkeypatch.setattr(page_faults, "may_wait", lambda *arguments: may_wait)
        qp = some(rre=1, st=QpType.RC, state=state, handle=5, pd=None)
        found = duplicates.read_again(some(srqs={}, events=None, caps=None), qp, some(rkey=8), 0, 8)
        assert isinstance(found, PageFault) if is_held else found is None


@pytest.mark.parametrize(
    ("state", "is_there", "looks"),
    [(QpState.ERR, True, 1), (QpState.RTS, True, 0), (QpState.ERR, False, 0)],
)
def test_a_look_for_receives_to_flush(monkeypatch, state, is_there, looks):
    """The timer of a queue pair that has left ERR, or whose number is another's now, ends."""
    found = []
    monkeypatch.setattr(flush, "_poll_later", lambda hca, qp, interval: found.append(qp))
    qp = some(state=state, handle=5, rq=None)
    hca = some(qps={5: qp if is_there else some()})
    flush._poll_receives(hca, qp, 1000)
    assert len(found) == looks


class TestPackets:
    @pytest.mark.parametrize("full", [0, 1], ids=["own", "parent"])
    def test_a_packet_is_held_within_the_limits_of_the_function_and_its_parent(self, full):
        above = Ledger(4000)
        ledger = Ledger(4000, above)
        capacity = HeldCapacity(ledger)
        (ledger, above)[full].hold("objects", 2000)
        payload = bytearray(500)
        packets = [some(payload=memoryview(payload)) for _ in range(2)]
        assert [capacity.admit(packet) for packet in packets] == [True, False]
        assert packets[1].payload.obj is payload
        capacity.release(packets[0])
        assert capacity.admit(packets[1])

    def test_a_packet_that_came_too_early_is_kept_once(self):
        room = some(admit=lambda packet: True, release=lambda packet: None)
        early = EarlyPackets(room)
        for psn in (5, 5, *range(MAX_HELD + 9)):
            early.add(some(psn=psn))
        assert sorted(early.packets) == [*range(MAX_HELD)]
        first = early.packets[5]
        early.pop(6)
        early.add(some(psn=5))
        assert early.packets[5] is first

    @pytest.mark.parametrize("ethertype", [b"\x08\x06", b"\x88\xcc"])
    def test_what_has_no_ip_header_is_not_marked(self, ethertype):
        assert with_mark(b"\xff" * 12 + ethertype + b"\xff" * 50) is None

    def test_a_frame_of_another_protocol_is_no_transport_packet(self):
        with pytest.raises(BadPacketError, match="not a RoCE frame"):
            RoceLink.parse(some(), bytes(12) + b"\x08\x06" + bytes(100))

    def test_a_function_that_has_failed_takes_no_frame(self):
        """Nothing else of it is looked at."""
        assert eth_receive.arrive(some(health=some(has_failed=True)), "frame") is None
