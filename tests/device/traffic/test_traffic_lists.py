"""Gather and scatter lists, inline data, and messages that do not fit."""

import itertools
import random

import pytest

from emu.driver.verbs.channels import GRH_BYTES, Channel
from emu.driver.verbs.segments import inline
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpState, QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, RADDR

RC, UC, UD, XRC_QP = QpType.RC, QpType.UC, QpType.UD, QpType.XRC
SIZE = 1 << 16
TEXT = random.Random(1).randbytes(SIZE)
END_OF_LIST = (0, 0x100, 0)


@pytest.fixture
def source(channel):
    region = channel.left.region(SIZE, va=0x1000_0000_0FFF)
    region.write(TEXT)
    return region


@pytest.fixture
def target(channel):
    return channel.right.region(SIZE, va=0x2000_0000_0801)


def cuts(rng, length, count):
    """``count`` lengths that sum to ``length``."""
    marks = sorted(rng.randrange(1, length) for _ in range(count - 1))
    return [high - low for low, high in zip([0, *marks], [*marks, length])]


def pieces(region, lengths, gap=13):
    """Segments of these lengths, apart from each other, and their offsets."""
    at, found = 1, []
    for length in lengths:
        found.append((at, length))
        at += length + gap
    return found


def sges(region, parts):
    return [region.sge(at, length) for at, length in parts if length]


def read(region, parts):
    return b"".join(region.read(at, length) for at, length in parts)


@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
@pytest.mark.parametrize(("gathered", "scattered"), [(1, 1), (1, 3), (7, 1), (11, 3), (30, 3)])
def test_many_pieces_to_many_pieces(channel, source, target, gathered, scattered):
    rng = random.Random(gathered * 100 + scattered)
    length = rng.randrange(100, 4000)
    from_parts = pieces(source, cuts(rng, length, gathered))
    to_parts = pieces(target, cuts(rng, channel.header + length, scattered))
    channel.post_recv(*sges(target, to_parts))
    channel.send(*sges(source, from_parts))
    channel.settle()
    assert channel.sent()
    (received,) = channel.received()
    assert received.byte_cnt == channel.header + length
    assert read(target, to_parts)[channel.header :] == read(source, from_parts)
    for (at, size), (following, _) in itertools.pairwise(to_parts):
        assert not any(target.read(at + size, following - at - size))


@pytest.mark.parametrize("gathered", [1, 2, 29, 61])
def test_write_from_many_pieces(channel, source, target, gathered):
    parts = pieces(source, cuts(random.Random(gathered), 3000, gathered))
    channel.write((target.key, target.va), *sges(source, parts))
    channel.settle()
    assert channel.sent()
    assert target.read(0, 3000) == read(source, parts)


@pytest.mark.parametrize("scattered", [1, 2, 29, 61])
def test_read_into_many_pieces(channel, source, target, scattered):
    target.write(TEXT)
    parts = pieces(source, cuts(random.Random(scattered), 3000, scattered))
    channel.read((target.key, target.va), *sges(source, parts))
    channel.settle()
    assert channel.sent()
    assert read(source, parts) == TEXT[:3000]


def test_pieces_from_different_keys(channel, target):
    regions = [channel.left.region(100, va=0x3000 + 0x10_0000 * number) for number in range(5)]
    for number, region in enumerate(regions):
        region.write(bytes([number + 1]) * 100)
    channel.post_recv(target.sge())
    channel.send(*[region.sge(10, 20) for region in regions])
    channel.settle()
    assert target.read(0, 100) == b"".join(bytes([number + 1]) * 20 for number in range(5))


def test_large_message(channel, source, target):
    """Many packets, all pages, in one piece on both sides."""
    channel.post_recv(target.sge())
    channel.send(source.sge())
    channel.settle()
    assert channel.sent()[0].opcode == CqeOpcode.REQ
    assert target.read() == TEXT


# The receive list.


@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
def test_message_that_just_fits(channel, source, target):
    channel.post_recv(target.sge(0, channel.header + 100), target.sge(500, 1))
    channel.send(source.sge(0, 101))
    channel.settle()
    (received,) = channel.received()
    assert received.byte_cnt == channel.header + 101
    assert target.read(channel.header, 100) + target.read(500, 1) == TEXT[:101]


@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
def test_message_of_nothing_needs_no_room(channel, source, target):
    channel.post_recv(*([target.sge(0, GRH_BYTES)] if channel.header else []))
    channel.send()
    channel.settle()
    assert channel.sent()
    (received,) = channel.received()
    assert received.byte_cnt == channel.header


@pytest.mark.parametrize("room", [0, 1, 99])
@pytest.mark.parametrize("service", [RC, XRC_QP])
def test_message_longer_than_the_receive_request(channel, source, target, room):
    """Local length error where it arrives; the sender hears of an invalid request."""
    channel.post_recv(*([target.sge(0, room)] if room else []))
    channel.send(source.sge(0, 100))
    assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
    assert channel.sender.state == QpState.ERR
    assert channel.receive_failure() == CqeSyndrome.LOCAL_LENGTH_ERR
    assert channel.receiver.state == QpState.ERR
    assert not any(target.read())


@pytest.mark.parametrize("room", [0, 1, 99])
@pytest.mark.parametrize("service", [UC])
def test_unreliable_message_longer_than_the_receive_request(channel, source, target, room):
    """It is dropped, and the next one gets the request."""
    channel.post_recv(*([target.sge(0, room)] if room else []))
    channel.send(source.sge(0, 100))
    channel.send(*([source.sge(0, room)] if room else []))
    channel.settle()
    assert len(channel.sent()) == 2
    (received,) = channel.received()
    assert received.byte_cnt == room
    assert target.read(0, room) == TEXT[:room]
    assert not any(target.read()[room:])


def test_nothing_behind_the_end_mark_is_used(channel, source, target):
    channel.post_recv(target.sge(0, 50))
    body = DATA.pack(*target.sge(0, 50)) + DATA.pack(*END_OF_LIST) + DATA.pack(*target.sge(100, 50))
    channel.receiver.put(0, body)
    channel.send(source.sge(0, 51))
    assert channel.failure() == CqeSyndrome.REMOTE_INVAL_REQ_ERR
    assert channel.receive_failure() == CqeSyndrome.LOCAL_LENGTH_ERR
    assert not any(target.read())


def test_list_that_fills_the_request_needs_no_end_mark(channel, source, target):
    parts = [(0, 10), (20, 10), (40, 10), (60, 10)]
    channel.post_recv(*sges(target, parts))
    channel.send(source.sge(0, 40))
    channel.settle()
    assert channel.received()
    assert read(target, parts) == TEXT[:40]


# Message size limits.


@pytest.mark.parametrize("service", [RC, UC])
def test_message_longer_than_the_queue_pair_allows(service, ends):
    channel = Channel(service, *ends, log_msg_max=10)
    source, target = (node.region(4096) for node in ends)
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 1024))
    channel.settle()
    assert len(channel.sent()) == 1
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 1025))
    assert channel.failure() == CqeSyndrome.LOCAL_LENGTH_ERR


@pytest.mark.parametrize("service", [UD])
def test_datagram_longer_than_a_packet(channel, source, target):
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 4096))
    channel.settle()
    assert channel.received()[0].byte_cnt == GRH_BYTES + 4096
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 4097))
    assert channel.failure() == CqeSyndrome.LOCAL_LENGTH_ERR
    assert channel.sender.state == QpState.SQER
    assert channel.received() == []


def test_empty_byte_count_means_two_gibibytes(channel, source, target):
    """A provider leaves empty segments out, so this one is 2 GiB, which no key here covers."""
    channel.post_recv(target.sge())
    channel.sender.post(Opcode.SEND, DATA.pack(0, source.key, source.va))
    assert channel.failure() == CqeSyndrome.LOCAL_PROT_ERR
    assert not any(target.read())


# Inline data.


@pytest.mark.parametrize("service", [RC, UC, UD, XRC_QP])
@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 28, 29, 200, 900])
def test_inline_data(channel, target, length):
    channel.post_recv(target.sge())
    channel.send(TEXT[:length])
    channel.settle()
    assert channel.sent()
    (received,) = channel.received()
    assert received.byte_cnt == channel.header + length
    assert target.read(channel.header, length) == TEXT[:length]


def test_inline_write(channel, target):
    channel.write((target.key, target.va + 3), TEXT[:77])
    channel.settle()
    assert channel.sent()
    assert target.read(3, 77) == TEXT[:77]


def test_inline_and_pointers_in_one_request(channel, source, target):
    channel.post_recv(target.sge())
    channel.send(TEXT[:5], source.sge(5, 100), TEXT[105:130], b"", source.sge(130, 3))
    channel.settle()
    assert channel.sent()
    assert target.read(0, 133) == TEXT[:133]


def test_inline_data_do_not_change_after_the_doorbell(channel, target):
    """The request is read once: what the guest writes into the ring later goes nowhere."""
    channel.post_recv(target.sge())
    channel.send(b"before")
    channel.settle()
    channel.sender.put(channel.sender.sq_offset + 16, inline(b"behind"))
    assert target.read(0, 6) == b"before"


@pytest.mark.parametrize("announced", [13, 29, 0x3FF])
def test_inline_segment_longer_than_its_request(channel, target, announced):
    channel.post_recv(target.sge())
    body = (1 << 31 | announced).to_bytes(4, "big") + bytes(12)
    channel.sender.post(Opcode.SEND, body)
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
    assert not any(target.read())


def test_read_cannot_land_inline(channel, source, target):
    """The answer would go into the ring: there is no memory behind an inline segment."""
    target.write(TEXT)
    channel.sender.post(Opcode.RDMA_READ, RADDR.pack(target.va, target.key), inline(bytes(8)))
    assert channel.failure() == CqeSyndrome.LOCAL_QP_OP_ERR
