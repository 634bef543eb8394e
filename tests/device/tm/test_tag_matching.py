"""Messages with tags go to the buffers that were posted for them (rdma-core: tag_matching.md)."""

import pytest
from helpers.device.tags import TaggedEnds

from emu.device.models import LINKS
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure
from emu.driver.verbs.tag_queue import TagOutcome, TagQueue, eager, request
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState
from layouts.rings.tag_matching import TmAppOp as App
from layouts.wire.tmh import TMH, TmhOp

NO_PACKET, SEND, SEND_IMM = CqeOpcode.NO_PACKET, CqeOpcode.RESP_SEND, CqeOpcode.RESP_SEND_IMM
DATA = bytes(range(1, 101))


def test_by_model():
    has = {
        (name, link.name): model.general.get("tag_matching", 0)
        for name, links in LINKS.items()
        for link, model in links.items()
    }
    assert {key for key, value in has.items() if value} == {
        (name, link) for name, link in has if link == "IB"
    }


def test_a_message_goes_to_the_buffer_of_its_tag(tagged):
    for number in range(3):
        tagged.queue.add(tagged.target.sge(1000 * number, 1000), tag=10 + number)
    added = tagged.completions()
    assert added == [TagOutcome(NO_PACKET, App.APPEND, n, success=True) for n in range(3)]
    tagged.send(eager(11, DATA, context=5))
    assert tagged.completions() == [TagOutcome(SEND, App.CONSUMED_MSG, 1, len(DATA), tag=11)]
    assert tagged.target.read(1000, 101) == DATA + b"\0"
    assert tagged.target.read(0, 1000) == bytes(1000)
    tagged.send(eager(12, b""))
    tagged.send(eager(10, DATA[:1]), imm=0x1234)
    assert tagged.completions() == [
        TagOutcome(SEND, App.CONSUMED_MSG, 2, 0, tag=12),
        TagOutcome(SEND_IMM, App.CONSUMED_MSG, 0, 1, tag=10, immediate=0x1234),
    ]


def test_the_first_entry_that_matches(tagged):
    queue, target = tagged.queue, tagged.target
    queue.add(target.sge(0, 64), tag=0x0F00, mask=0xFF00)
    queue.add(target.sge(64, 64), tag=0x0F01)
    queue.add(None, tag=0, mask=0)
    tagged.completions()
    for tag, data in ((0x0F01, b"a"), (0x0F01, b"b"), (0x77, b"")):
        tagged.send(eager(tag, data))
    assert [found.index for found in tagged.completions()] == [0, 1, 2]
    assert (target.read(0, 1), target.read(64, 1)) == (b"a", b"b")


def test_bits_outside_the_mask_match_nothing(tagged):
    tagged.queue.add(tagged.target.sge(0, 64), tag=0x1FF, mask=0xFF)
    tagged.completions()
    tagged.send(eager(0x1FF))
    assert [found.app_op for found in tagged.completions()] == [App.UNEXPECTED]


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\3", eager(7)[:15], TMH.pack(TmhOp.NO_TAG, 1, 7) + DATA,
     TMH.pack(TmhOp.FIN, 1, 7), TMH.pack(0xEE, 1, 7)],
    ids=["empty", "one byte", "opcode alone", "short", "no tag", "fin", "unknown"],
)  # fmt: skip
def test_what_has_no_tag_goes_to_the_receive_queue(tagged, data):
    tagged.queue.add(tagged.target.sge(0, 64), tag=7)
    tagged.completions()
    tagged.send(data)
    assert tagged.completions() == [TagOutcome(SEND, App.NO_TAG, 0, len(data))]
    assert tagged.spare.read(0, len(data)) == data
    tagged.queue.add(tagged.target.sge(64, 64), tag=8)
    assert tagged.completions() == [TagOutcome(NO_PACKET, App.APPEND, 1, success=True, hw_phase=0)]


def test_receive_requests_in_a_ring(ends):
    tagged = TaggedEnds(*ends, is_ring=True)
    for number in range(8):
        tagged.send(eager(number, DATA))
    assert tagged.completions() == [
        TagOutcome(SEND, App.UNEXPECTED, number, 16 + len(DATA)) for number in range(8)
    ]


def test_immediate_data_of_a_write(tagged):
    remote = tagged.target.key, tagged.target.va
    tagged.sender.write(remote, DATA, imm=9)
    assert tagged.completions() == [
        TagOutcome(CqeOpcode.RESP_WR_IMM, App.NO_TAG, 0, len(DATA), immediate=9)
    ]


def test_an_unexpected_message_closes_entries_that_are_added_after_it(tagged):
    queue, target = tagged.queue, tagged.target
    queue.add(target.sge(0, 64), tag=1)
    tagged.completions()
    tagged.send(eager(2, DATA))
    assert tagged.completions() == [TagOutcome(SEND, App.UNEXPECTED, 0, 16 + len(DATA))]
    assert tagged.spare.read(0, 16 + len(DATA)) == eager(2, DATA)
    queue.add(target.sge(64, 64), tag=3)
    assert tagged.completions() == [TagOutcome(NO_PACKET, App.APPEND, 1, success=True, hw_phase=1)]
    tagged.send(eager(3))  # its entry is closed, that of tag 1 is not
    tagged.send(eager(1))
    assert [(f.app_op, f.index) for f in tagged.completions()] == [
        (App.UNEXPECTED, 1), (App.CONSUMED_MSG, 0)
    ]  # fmt: skip
    queue.handled = 1
    queue.synchronize()
    assert tagged.completions() == [TagOutcome(NO_PACKET, App.NOOP, 0, success=True, hw_phase=2)]
    tagged.send(eager(3))
    assert [found.app_op for found in tagged.completions()] == [App.UNEXPECTED]
    queue.handled = 3
    queue.synchronize()
    tagged.send(eager(3))
    assert [found.app_op for found in tagged.completions()] == [App.NOOP, App.CONSUMED_MSG]


def test_an_entry_is_removed_once(tagged):
    index = tagged.queue.add(tagged.target.sge(0, 64), tag=1)
    tagged.queue.remove(index)
    tagged.queue.remove(index)
    assert [(f.app_op, f.success) for f in tagged.completions()] == [
        (App.APPEND, True), (App.REMOVE, True), (App.REMOVE, False)
    ]  # fmt: skip
    tagged.send(eager(1))
    assert [found.app_op for found in tagged.completions()] == [App.UNEXPECTED]


def test_requests_without_completions(tagged):
    tagged.queue.add(tagged.target.sge(0, 64), tag=1, flags=0)
    assert tagged.completions() == []
    tagged.send(eager(1))
    assert [found.app_op for found in tagged.completions()] == [App.CONSUMED_MSG]


def test_a_long_message_has_two_completions(tagged):
    data = bytes(range(256)) * 20
    tagged.queue.add(tagged.target.sge(0, 8192), tag=1)
    tagged.completions()
    tagged.send(eager(1, data), imm=4)
    assert tagged.completions() == [
        TagOutcome(NO_PACKET, App.CONSUMED, 0, tag=1),
        TagOutcome(SEND_IMM, App.EXPECTED, 0, len(data), immediate=4),
    ]
    assert tagged.target.read(0, len(data) + 1) == data + b"\0"


def test_a_buffer_that_is_too_short(tagged):
    tagged.queue.add(tagged.target.sge(0, 64), tag=1)
    tagged.completions()
    tagged.send(eager(1, DATA))
    assert tagged.completions() == [TagOutcome(NO_PACKET, App.MSG_COMPLETION_CANCELED, 0)]
    assert tagged.receiver.state is QpState.ERR
    (failed,) = tagged.sender.cq.drain()
    assert failed.syndrome == CqeSyndrome.REMOTE_INVAL_REQ_ERR
    assert tagged.target.read(0, 101) == bytes(101)


def test_no_receive_request_is_left(tagged, clock):
    for _ in range(8):
        tagged.send(eager(5))
    tagged.completions()
    tagged.sender.send(eager(6))
    assert tagged.completions() == []
    tagged.queue.handled = 8
    tagged.queue.add(tagged.target.sge(0, 64), tag=6)
    tagged.settle()
    clock.advance(10_000_000)
    assert [found.app_op for found in tagged.completions()] == [App.APPEND, App.CONSUMED_MSG]


def test_short_messages_are_in_their_buffers(ends):
    """The completions of other queues have room for them; here the tag's fields are there."""
    left, right = ends
    queue = TagQueue(right).start()
    sender, receiver = left.queue_pair(), queue.queue_pair(cs_res=1)
    connect(sender, receiver)
    target = right.region(4096)
    queue.post(target.sge(100, 100))
    queue.add(target.sge(0, 100), tag=3)
    right.settle()
    sender.send(eager(3, b"expected"))
    sender.send(eager(4, b"more"))
    left.settle()
    assert [found.app_op for found in queue.drain()] == [
        App.APPEND, App.CONSUMED_MSG, App.UNEXPECTED,
    ]  # fmt: skip
    assert target.read(0, 8) == b"expected"
    assert target.read(100, 20) == eager(4, b"more")


def test_buffers_of_tags_wait_for_no_pages(tagged):
    """A driver searches the queue's own ring for what waits, and would not find them."""
    pager = Pager(tagged.right)
    absent = PagedRegion(pager, 4096)
    tagged.queue.add(absent.sge(0, 100), tag=3)
    tagged.completions()
    tagged.send(eager(3, DATA))
    assert pager.faults() == []
    assert [found.app_op for found in tagged.completions()] == [App.MSG_COMPLETION_CANCELED]
    assert failure(tagged.sender) == CqeSyndrome.REMOTE_OP_ERR


# -- rendezvous


def sender_has_a_place(tagged):
    place = tagged.left.region(64)
    tagged.sender.post_recv(place.sge(0, 64))
    return place


@pytest.mark.parametrize("length", [0, 1, 100, 1024, 9000])
def test_the_adapter_fetches_the_data(tagged, length):
    data = bytes(range(1, 251)) * 40
    tagged.source.write(data, 0)
    place = sender_has_a_place(tagged)
    tagged.queue.add(tagged.target.sge(0, 10000), tag=3)
    tagged.completions()
    sent = request(3, tagged.source.va, tagged.source.key, length, b"user")
    tagged.sender.send(sent)
    assert tagged.completions() == [
        TagOutcome(NO_PACKET, App.CONSUMED, 0, tag=3),
        TagOutcome(SEND, App.EXPECTED, 0, length),
    ]
    assert tagged.target.read(0, 10000) == data[:length].ljust(10000, b"\0")
    opcodes = [found.opcode for found in tagged.sender.cq.drain()]
    assert sorted(opcodes) == [CqeOpcode.REQ, CqeOpcode.RESP_SEND]
    assert place.read(0, 32) == bytes((TmhOp.FIN,)) + sent[1:32]
    assert place.read(32, 1) == b"\0"


def test_the_adapter_fetches_data_after_requests_of_the_software(tagged):
    """Its requests ring no doorbell, and the queue pair has sent all that the ring had."""
    place = sender_has_a_place(tagged)
    tagged.receiver.send(b"of the software")
    tagged.settle()
    sender_has_a_place(tagged)
    tagged.queue.add(tagged.target.sge(0, 100), tag=3)
    tagged.completions()
    tagged.source.write(DATA, 0)
    tagged.sender.send(request(3, tagged.source.va, tagged.source.key, 100))
    assert [found.app_op for found in tagged.completions()] == [App.CONSUMED, App.EXPECTED]
    assert tagged.target.read(0, 100) == DATA
    assert place.read(0, 15) == b"of the software"


def test_without_a_send_queue(ends):
    left, right = ends
    queue = TagQueue(right).start()
    sender, receiver = left.queue_pair(), queue.queue_pair(no_sq=1)
    connect(sender, receiver)
    source, target = left.region(4096), right.region(4096)
    source.write(DATA, 0)
    sender.post_recv(source.sge(1000, 64))
    queue.add(target.sge(0, 4096), tag=3)
    right.settle()
    sender.send(request(3, source.va, source.key, 100))
    for _ in range(3):
        left.settle()
        right.settle()
    assert [found.app_op for found in queue.drain()] == [App.APPEND, App.CONSUMED, App.EXPECTED]
    assert target.read(0, 100) == DATA


def test_an_unexpected_request_is_the_softwares(tagged):
    sent = request(3, tagged.source.va, tagged.source.key, 100, b"more")
    tagged.send(sent)
    assert tagged.completions() == [TagOutcome(SEND, App.UNEXPECTED, 0, len(sent))]
    assert tagged.spare.read(0, len(sent)) == sent


@pytest.mark.parametrize("room", [99, 20, 0])
def test_a_buffer_that_is_too_short_for_the_data(tagged, room):
    """Its software gets the headers, and knows that a message has taken it."""
    tagged.queue.add(tagged.target.sge(0, room) if room else None, tag=3)
    tagged.completions()
    sent = request(3, tagged.source.va, tagged.source.key, 100, b"more")
    tagged.send(sent)
    assert tagged.completions() == [TagOutcome(SEND, App.CONSUMED_MSG_SW_RNDV, 0, len(sent), tag=3)]
    assert tagged.target.read(0, 200) == sent[:room].ljust(200, b"\0")
    assert tagged.receiver.state is QpState.RTS


@pytest.mark.parametrize("wrong", ["key", "address"])
def test_data_that_may_not_be_fetched(tagged, wrong):
    tagged.queue.add(tagged.target.sge(0, 100), tag=3)
    tagged.completions()
    key = tagged.source.key + (0x400000 if wrong == "key" else 0)
    va = tagged.source.va + (1 << 30 if wrong == "address" else 0)
    tagged.sender.send(request(3, va, key, 100))
    assert [(f.app_op, f.index) for f in tagged.completions()] == [
        (App.CONSUMED, 0), (App.MSG_COMPLETION_CANCELED, 0)
    ]  # fmt: skip
    assert tagged.receiver.state is QpState.ERR
    assert tagged.receiver.cq.drain() == []  # the request was the adapter's
    assert tagged.target.read(0, 100) == bytes(100)


@pytest.mark.parametrize("length", [16, 31, 65])
def test_a_request_of_the_wrong_length(tagged, length):
    tagged.queue.add(tagged.target.sge(0, 100), tag=3)
    tagged.completions()
    data = request(3, tagged.source.va, tagged.source.key, 100, bytes(64))[:length]
    tagged.send(data)
    assert tagged.completions() == [TagOutcome(SEND, App.UNEXPECTED, 0, length)]


def test_many_at_once(tagged):
    data = bytes(range(1, 251)) * 40
    tagged.source.write(data, 0)
    for number in range(7):
        tagged.sender.post_recv(tagged.left.region(64).sge(0, 64))
        tagged.queue.add(tagged.target.sge(2000 * number, 2000), tag=number)
    tagged.right.settle()
    for number in reversed(range(7)):
        va = tagged.source.va + number
        tagged.sender.send(request(number, va, tagged.source.key, 1500), ring=not number)
    kinds = [found.app_op for found in tagged.completions()]
    assert sorted(kinds) == sorted([App.APPEND, App.CONSUMED, App.EXPECTED] * 7)
    for number in range(7):
        assert tagged.target.read(2000 * number, 1500) == data[number : number + 1500]
