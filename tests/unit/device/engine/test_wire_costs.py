"""What a peer can make a function do: bounded by the turn and by the function, never by the peer.

Work is counted, in entries translated, packets sent and packets kept.
"""

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS

from emu.device.engine import lifecycle
from emu.device.engine.mr import access as memory
from emu.device.engine.mr import page_faults
from emu.device.engine.mr.entries import page_runs
from emu.device.engine.rc.packets import responder
from emu.device.engine.rc.packets.responder import PAGE_TIMEOUT_NS, UC_PAGE_TIMEOUT_NS
from emu.device.engine.rc.remote import MAP_AHEAD_BYTES
from emu.device.rounds.sizes import PACKETS_PER_POLL
from emu.device.state import held
from emu.driver.command.words import pack64
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.region import RIGHTS
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState, QpType

pytestmark = pytest.mark.hostile

PAGE = 4096
LONG = 16 << 20
VA = 0x7F00_0000_0000


class LongKey:
    """A key over much memory, all of it the same page."""

    def __init__(self, node, size=LONG):
        self.page = node.memory.alloc(PAGE)
        entries = pack64([self.page | 3] * (size // PAGE))
        fields = {
            "pd": node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "len": size,
            "start_addr": VA, "log_page_size": 12,
            "translations_octword_size": size // PAGE // 2,
        } | RIGHTS  # fmt: skip
        answer = node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields, extra=entries,
            translations_octword_actual_size=size // PAGE // 2,
        )  # fmt: skip
        self.key = answer.mkey_index << 8

    def sge(self, length=LONG):
        return length, self.key, VA


@pytest.fixture
def translated(monkeypatch):
    """How many page entries have been looked at since the last call."""
    counted = [0]
    original = page_runs

    def runs(mkey, va, length, need):
        counted[0] += -(-length >> mkey.log_page_size) if length else 0
        return original(mkey, va, length, need)

    monkeypatch.setattr(memory, "page_runs", runs)
    monkeypatch.setattr(memory, "parts_of_pages", lambda *_: [])  # all pages by the other way

    def since():
        found, counted[0] = counted[0], 0
        return abs(found)

    return since


@pytest.fixture
def channel(packet_pair):
    return Channel(QpType.RC, *packet_pair, mtu=5, log_msg_max=30)


@pytest.fixture
def asked(channel, packet_wire):
    """The request packet of a long READ, on its way; and the key that it reads."""
    target = LongKey(channel.right)
    channel.read((target.key, VA), LongKey(channel.left).sge())
    channel.left.function.run()
    (frame,) = packet_wire.frames
    return frame


def test_read_is_translated_as_it_is_sent(channel, packet_wire, asked, translated):
    translated()
    packet_wire.deliver()
    assert translated() <= MAP_AHEAD_BYTES // PAGE
    channel.right.function.run()
    assert len(packet_wire.frames) == PACKETS_PER_POLL
    assert translated() <= PACKETS_PER_POLL + MAP_AHEAD_BYTES // PAGE


def test_duplicate_of_a_long_read_translates_nothing(channel, packet_wire, asked, translated):
    packet_wire.deliver()
    translated()
    for _ in range(100):
        packet_wire.arrive(asked)
    assert translated() == 0
    responses = channel.right.hca.qps.get(channel.receiver.qpn).connection.responder.responses
    assert len(responses.reads(is_replay=False)) == 1
    assert responses.reads(is_replay=True) == []


@pytest.mark.parametrize("service", [QpType.RC, QpType.UC])
def test_write_is_translated_as_it_comes(packet_pair, packet_wire, translated, service):
    channel = Channel(service, *packet_pair, mtu=5, log_msg_max=30)
    target = LongKey(channel.right)
    channel.write((target.key, VA), LongKey(channel.left).sge())
    channel.left.function.run()
    translated()
    packet_wire.deliver()
    assert translated() <= MAP_AHEAD_BYTES // PAGE + 1
    packet_wire.deliver()
    assert translated() <= 1


def test_range_of_a_long_request_is_checked_before_anything_is_moved(channel, packet_wire):
    target = LongKey(channel.right)
    channel.read((target.key, VA + PAGE), LongKey(channel.left).sge())
    channel.left.function.run()
    packet_wire.deliver()
    channel.right.function.run()
    assert len(packet_wire.frames) == 1
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR


# Packets that wait for a page.


def waiting(packet_pair, service=QpType.RC, count=3, **options):
    """Connections whose receivers wait for the same page, and the event of each."""
    left, right = packet_pair
    pager = Pager(right)
    target = PagedRegion(pager, 16 * PAGE)
    source = left.region(16 * PAGE)
    source.write(bytes(range(256)) * 256)
    channels = [
        Channel(service, left, right, mtu=3, ack_timeout=0, rnr_retry=7, **options)
        for _ in range(count)
    ]
    for channel in channels:
        channel.write((target.key, target.va), source.sge())
        channel.settle()
    return pager, pager.faults(), target, source, channels


def links(channels):
    return [channel.right.hca.qps.get(channel.receiver.qpn).connection for channel in channels]


def kept(channels):
    return sum(len(link.responder._held.packets) for link in links(channels))


def test_all_queue_pairs_share_the_room(packet_pair, monkeypatch, clock):
    """Who finds no room is asked to come again: nothing fails, and everything arrives."""
    monkeypatch.setattr(held, "MAX_HELD_BYTES", 100 << 10)
    packet_pair[1].hca.held_capacity.left = held.MAX_HELD_BYTES
    pager, events, target, source, channels = waiting(packet_pair)
    assert 0 < kept(channels) * 1024 < held.MAX_HELD_BYTES
    target.bring_in()
    for event in events:
        pager.must_resume(event)
    for _ in range(5):
        clock.advance(PAGE_TIMEOUT_NS)
        for channel in channels:
            channel.settle()
    assert [len(channel.sent()) for channel in channels] == [1] * len(channels)
    assert target.read() == source.read()
    assert packet_pair[1].hca.held_capacity.left == held.MAX_HELD_BYTES


def test_what_waits_is_on_the_ledger(packet_pair):
    ledger = packet_pair[1].hca.ledger
    _, _, _, _, channels = waiting(packet_pair)
    assert ledger.accounts[held.HELD] >= kept(channels) * 1024
    packet_pair[1].function.reset()
    packet_pair[1].function.run()
    assert held.HELD not in packet_pair[1].hca.ledger.accounts
    assert held.HELD not in ledger.accounts


def test_nothing_waits_on_a_spent_ledger(packet_pair):
    ledger = packet_pair[1].hca.ledger
    ledger.hold("test", ledger.limit - ledger.used - (60 << 10))
    _, _, _, _, channels = waiting(packet_pair, count=1)
    assert 0 < kept(channels) < 64
    assert ledger.used <= ledger.limit


def test_what_waited_is_taken_in_turns(packet_pair, packet_wire, monkeypatch):
    _, (event,), target, source, (channel,) = waiting(packet_pair, count=1)
    assert kept([channel]) == 64
    monkeypatch.setattr(responder, "PACKETS_PER_POLL", 10)
    target.bring_in()
    hca = packet_pair[1].hca
    page_faults.resume(hca.events, hca.page_faults, event.token, error=False)
    assert kept([channel]) == 64
    for left in (54, 44, 34):
        lifecycle.run(hca)
        assert kept([channel]) == left
    packet_wire.settle()
    assert target.read() == source.read()


def test_each_page_has_so_long_to_come(packet_pair, clock):
    """The second one is met by a packet that has waited for the first, and no other comes."""
    pager, (event,), target, _, channels = waiting(packet_pair, count=1)
    target.bring_in(0)
    pager.must_resume(event)
    pager.fault()
    assert kept(channels)
    clock.advance(PAGE_TIMEOUT_NS)
    assert not kept(channels)


def test_unreliable_packets_do_not_wait_for_ever(packet_pair, clock):
    _, _, _, _, channels = waiting(packet_pair, QpType.UC)
    assert kept(channels)
    clock.advance(UC_PAGE_TIMEOUT_NS)
    assert not kept(channels)
    assert packet_pair[1].hca.held_capacity.left == held.MAX_HELD_BYTES


@pytest.mark.parametrize("end", ["to_error", "to_reset", "destroy"])
def test_room_comes_back_with_the_queue_pair(packet_pair, end):
    _, _, _, _, channels = waiting(packet_pair)
    assert kept(channels)
    for channel in channels:
        getattr(channel.receiver, end)()
    assert packet_pair[1].hca.held_capacity.left == held.MAX_HELD_BYTES
    assert held.HELD not in packet_pair[1].hca.ledger.accounts


# A requester that waits for a page of its own.


def test_ack_timer_of_a_requester_that_waits(packet_pair, packet_wire, clock, monkeypatch):
    """It comes due once in a timeout, as often as the page is late; not all the time."""
    left, right = packet_pair
    channel = Channel(QpType.RC, left, right, mtu=3, ack_timeout=10, retry_count=7)
    pager = Pager(left)
    source = PagedRegion(pager, 4 * PAGE)
    target = right.region(4 * PAGE)
    source.bring_in(0)
    packet_wire.tap = lambda frame: []
    source.bring_in(1, 2)
    channel.write((target.key, target.va), source.sge(0, 3 * PAGE))
    left.function.run()
    source.take_away(0, 1, 2)
    timeout = 4 * (ACK_TIMEOUT_UNIT_NS << 10)
    calls = []
    original = clock.call_later

    def counted(delay_ns, callback):
        calls.append(delay_ns)
        assert len(calls) < 100, "a timer that has come due is set again at once"
        return original(delay_ns, callback)

    monkeypatch.setattr(left.hca.clock, "_call_later", counted)
    for _ in range(10):
        clock.advance(timeout)
        left.function.run()
    assert channel.sender.state == QpState.RTS
    assert left.hca.qps.get(channel.sender.qpn).connection.requester.is_stuck
