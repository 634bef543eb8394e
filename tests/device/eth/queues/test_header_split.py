"""Header split and merging of data: entries, reservations, matches, fillers (core/en_rx.c)."""

from functools import partial

import pytest
from helpers.device.eth_nodes import node_alone
from helpers.device.lro import LRO
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.rings import rq_fields
from emu.driver.ethernet.split_queue import SplitQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import CapMode, CapType, PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wq import RqState, ShampoAlignment, ShampoMatch, WqType
from layouts.function.eth_caps import shampo_cap

ACK, PSH, FIN, SYN, CWR, ECE, URG = 0x10, 0x08, 0x01, 0x02, 0x80, 0x40, 0x20
V6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}
TCP4, TCP6 = 54, 74
"""Bytes of a header without options."""


MODEL = "connectx7"


@pytest.fixture
def base_model():
    return LINKS[MODEL][PortType.ETH]


def queue_of(node, posted=3, tir=None, **options):
    """A queue of requests of 16 KiB in four reservations, to which all frames go by a TIR."""
    queue = SplitQueue(node, **{"log_count": 6, "log_size": 2} | options)
    flows = Flows(node.driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(node.driver, alloc_td(node.driver), queue.rqn, **(tir or {}))
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    queue.post_more(posted)
    return queue


@pytest.fixture
def make(node, counter):
    return partial(queue_of, node, counter_set_id=counter)


def stream(*sizes, sequence=1000, identifier=7, step=1, flags=None, **parts):
    """Frames of a TCP stream; ``flags`` are those of the last one."""
    found = []
    for number, size in enumerate(sizes):
        is_last = number == len(sizes) - 1
        packet = EthPacket(
            payload=bytes(sequence + n & 0xFF for n in range(size)), sequence=sequence,
            identifier=identifier + number * step & 0xFFFF,
            flags=flags if is_last and flags is not None else ACK, **parts,
        )  # fmt: skip
        found.append(packet.frame())
        sequence += size
    return found


def send(hca, *frames):
    for data in frames:
        arrive(hca, Frame(data.ljust(60, b"\0")))


def shown(pieces):
    return [(p.match, p.flush, p.strides, len(p.header), len(p.data)) for p in pieces]


def test_headers_and_data_are_apart(hca, make):
    rq = make()
    frames = stream(1000, 1000, 1000)
    send(hca, *frames)
    pieces = rq.pieces()
    assert [piece.header + piece.data for piece in pieces] == frames
    assert [len(piece.header) for piece in pieces] == [TCP4] * 3
    assert [piece.index for piece in pieces] == [0, 1, 2]


@pytest.mark.parametrize("parts", [{}, V6], ids=["IPv4", "IPv6"])
def test_data_of_a_stream_are_behind_each_other(hca, make, parts):
    rq = make()
    send(hca, *stream(1000, 1000, 1000, 500, **parts))
    pieces = rq.pieces()
    assert [(p.match, p.flush) for p in pieces] == [
        (False, False), (True, False), (True, False), (True, True),
    ]  # fmt: skip
    assert [piece.offset for piece in pieces] == [0, 1000, 2000, 3000]
    # Strides of 256 bytes: those that are begun.
    assert [piece.strides for piece in pieces] == [4, 4, 4, 2]


@pytest.mark.parametrize(
    "second",
    [
        stream(1000, sequence=2001), stream(1000, sequence=1999),
        stream(1000, sequence=2000, ports=b"\x04\xd3\x00\x50"),
        stream(1000, sequence=2000, source=bytes((10, 0, 0, 9))),
        stream(1000, sequence=2000, tos=4), stream(1000, sequence=2000, identifier=9),
        stream(1000, sequence=2000, identifier=6), stream(1001, sequence=2000, identifier=8),
        stream(1000, sequence=2000, identifier=8, options=bytes(4)),
        stream(1000, sequence=2000, identifier=8, flags=ACK | SYN),
        stream(1000, sequence=2000, identifier=8, flags=ACK | CWR),
        stream(1000, sequence=2000, identifier=8, flags=ACK | URG),
        stream(1000, sequence=2000, identifier=8, flags=PSH),
        stream(1000, sequence=2000, identifier=8, fragment=0x4000),
        stream(1000, sequence=2000, identifier=8, extra=bytes(4)),
        stream(1000, sequence=2000, identifier=8, tags=((0x8100, 5),)),
        stream(1000, sequence=2000, protocol=UDP),
        [EthPacket(protocol=1, payload=bytes(8) + bytes(1000)).frame()],
    ],
    ids=[
        "gap", "overlap", "port", "address", "TOS", "identifier jumps", "identifier goes back",
        "longer", "TCP options", "SYN", "CWR", "URG", "no ACK", "do not fragment", "IP options",
        "VLAN", "UDP", "ICMP",
    ],
)  # fmt: skip
def test_no_match(hca, make, second):
    rq = make()
    send(hca, *stream(1000), *second)
    first, other = rq.pieces()
    assert not first.match
    assert not other.match
    assert other.offset == 1024
    assert other.header + other.data == second[0]


def test_headers_with_options_never_match(hca, make):
    """Not even when both have the same."""
    rq = make()
    send(hca, *stream(1000, 1000, extra=bytes(4)))
    assert [piece.match for piece in rq.pieces()] == [False, False]


def test_datagrams_that_look_like_a_stream(hca, make):
    """With flags and a sequence number where TCP has them."""
    rq = make()
    for number in range(2):
        words = bytes((0, 0, 0, 0, 0, ACK, 0, 0)) + (1000 * (1 - number)).to_bytes(2, "big")
        packet = EthPacket(protocol=UDP, payload=words.ljust(1000, b"\0"), identifier=7 + number)
        send(hca, packet.frame())
    assert [piece.match for piece in rq.pieces()] == [False, False]


def test_a_reservation_that_is_full_needs_no_filler(hca, make):
    rq = make()
    send(hca, *stream(1024, 1024, 1024, 1024), *stream(100, sequence=90_000))
    assert [piece.is_filler for piece in rq.pieces()] == [False] * 5


def test_a_request_that_a_rule_takes_away(hca, function, make):
    rq = make()
    injector = Injector(function)
    function.use_faults(injector)
    injector.load(load('[[rule]]\npoint="wqe.rx"\naction="drop"\ntimes=1'))
    send(hca, *stream(100), *stream(100, sequence=9000))
    assert len(rq.pieces()) == 1


def test_identifiers_that_stay_match(hca, make):
    """The driver tells the two kinds apart by the second one (second_ip_id)."""
    rq = make()
    send(hca, *stream(100, 100, 100, step=0), *stream(100, 100, sequence=1300, identifier=8))
    assert [piece.match for piece in rq.pieces()] == [False, True, True, False, True]


@pytest.mark.parametrize("flags", [ACK | PSH, ACK | FIN, ACK | PSH | FIN])
def test_flags_that_end_it(hca, make, flags):
    rq = make()
    send(hca, *stream(100, 100, flags=flags), *stream(100, sequence=1200, identifier=9))
    assert [(p.match, p.flush) for p in rq.pieces()] == [
        (False, False), (True, True), (False, False),
    ]  # fmt: skip


def test_a_wrong_checksum_is_no_part_of_it(hca, make):
    rq = make()
    frames = stream(100, 100, 100)
    frames[1] = frames[1][:-1] + b"\xee"
    send(hca, *frames)
    assert [piece.match for piece in rq.pieces()] == [False] * 3


def test_packets_that_may_have_padding_are_never_merged(hca, make):
    rq = make()
    send(hca, *stream(14, 14), *stream(15, 15, sequence=5000))
    pieces = rq.pieces()
    assert [(p.match, p.flush) for p in pieces] == [
        (False, True), (False, True), (False, False), (True, False),
    ]  # fmt: skip


def test_without_data(hca, make):
    """All of an acknowledgment is its header, padding too; no stride is taken."""
    rq = make()
    send(hca, *stream(0), *stream(0))
    send(hca, *stream(100))
    assert shown(rq.pieces()) == [
        (False, True, 0, 60, 0), (False, True, 0, 60, 0), (False, False, 1, TCP4, 100),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "header"),
    [
        (MACS + b"\x08\x06" + bytes(range(46)), 0),
        (EthPacket(protocol=1, payload=bytes(range(100))).frame(), 0),
        (EthPacket(fragment=0x2000, payload=bytes(100)).frame(), 0),
        (EthPacket(protocol=UDP, payload=bytes(100)).frame(), 42),
        (EthPacket(protocol=UDP, payload=b"", tags=((0x8100, 5),)).frame(), 60),
        (EthPacket(tags=((0x8100, 5),), options=bytes(12), payload=bytes(100)).frame(), 70),
    ],
    ids=["ARP", "ICMP", "fragment", "UDP", "UDP without data", "VLAN and options"],
)
def test_what_is_split(hca, make, data, header):
    rq = make()
    send(hca, data)
    (piece,) = rq.pieces()
    assert len(piece.header) == header
    assert piece.header + piece.data == data.ljust(60, b"\0")


def test_only_what_is_split_takes_an_entry(hca, make):
    """The driver gives back the entry of a packet that has a header (free_hd_entry)."""
    rq = make()
    ping = EthPacket(protocol=1, payload=bytes(100)).frame()
    send(hca, ping, *stream(100), ping, *stream(100))
    assert [piece.index for piece in rq.pieces()] == [0, 0, 0, 1]


def test_entries_are_a_ring(hca, make, node):
    rq = make(log_entries=2)
    for number in range(6):
        send(hca, *stream(100, sequence=number * 5000))
    assert [piece.index for piece in rq.pieces()] == [0, 1, 2, 3, 0, 1]


def test_headers_longer_than_an_entry_stay_with_the_data(hca, make):
    rq = make(log_entry=6)
    send(hca, *stream(100), *stream(100, sequence=5000, options=bytes(12)))
    assert [len(piece.header) for piece in rq.pieces()] == [TCP4, 0]


def test_a_reservation_that_is_too_short_is_filled(hca, make):
    rq = make()
    send(hca, *stream(1400, 1400, 1400))
    pieces = rq.pieces()
    assert [(p.is_filler, p.match, p.strides, p.offset) for p in pieces] == [
        (False, False, 6, 0), (False, True, 5, 1400), (True, False, 5, 0),
        (False, False, 6, 4096),
    ]  # fmt: skip


def test_so_many_packets_and_no_more(hca, make):
    """The driver has mapped no more headers for a reservation."""
    rq = make(log_packets=2)
    send(hca, *[stream(100, sequence=n * 5000)[0] for n in range(5)])
    pieces = rq.pieces()
    assert [(p.is_filler, p.strides, p.offset) for p in pieces] == [
        (False, 1, 0), (False, 1, 256), (False, 1, 512), (False, 1, 768), (True, 12, 0),
        (False, 1, 4096),
    ]  # fmt: skip


def test_packets_without_data_use_up_a_reservation(hca, make):
    rq = make(log_packets=1)
    send(hca, *stream(0), *stream(0), *stream(0))
    assert [(p.is_filler, p.strides) for p in rq.pieces()] == [
        (False, 0), (False, 0), (True, 16), (False, 0),
    ]  # fmt: skip


@pytest.mark.hostile
def test_a_packet_without_data_at_the_end_of_a_request(hca, make):
    """Its completion names a stride of the request: wqe_counter has no bit for the one behind."""
    rq = make(log_count=6, log_stride_size=6, align=ShampoAlignment.PAGE)
    send(hca, *stream(1000, 1000, 1000, 1000), *stream(0, sequence=1))
    pieces = rq.pieces()
    assert [(p.wqe_id, p.strides) for p in pieces] == [(0, 16), (0, 16), (0, 15), (0, 16), (0, 0)]
    assert pieces[-1].entry.wqe_counter == 63


def test_over_the_end_of_a_request(hca, make):
    rq = make(posted=2)
    send(hca, *stream(*[1000] * 20))
    pieces = rq.pieces()
    assert [piece.wqe_id for piece in pieces if piece.is_filler] == []
    by_request = [sum(p.strides for p in pieces if p.wqe_id == n) for n in (0, 1)]
    assert by_request == [64, 16]
    assert [p.match for p in pieces].count(False) == 5


def test_nothing_is_taken_without_a_next_request(hca, driver, counter, make):
    rq = make(posted=1, log_count=4)
    send(hca, *stream(1400, 1400), *stream(1400, sequence=3800, identifier=9))
    assert len(rq.pieces()) == 2
    told = driver.must(Op.QUERY_Q_COUNTER, counter_set_id=counter)
    assert told.out_of_buffer == 1
    send(hca, *stream(500, sequence=3800, identifier=9))
    rq.post_more()
    send(hca, *stream(1000, sequence=90000))
    assert [(p.wqe_id, p.is_filler, p.match, p.strides) for p in rq.pieces()] == [
        (0, False, True, 2), (0, True, False, 3), (1, False, False, 4),
    ]  # fmt: skip


def test_a_packet_longer_than_a_reservation(hca, make):
    rq = make()
    hca.eth.admin_mtu = 9018
    send(hca, *stream(4097))
    assert rq.pieces() == []
    assert hca.nic_vport.wqe_too_small == 1
    send(hca, *stream(4096))
    assert shown(rq.pieces()) == [(False, False, 16, TCP4, 4096)]


@pytest.mark.parametrize(
    ("align", "offset", "strides"),
    [(ShampoAlignment.BYTE, 100, 0), (ShampoAlignment.STRIDE, 256, 1),
     (ShampoAlignment.PAGE, 4096, 16)],
)  # fmt: skip
def test_alignment_of_what_does_not_follow(hca, make, align, offset, strides):
    rq = make(log_reservation=14, align=align)
    send(hca, *stream(100), *stream(100, sequence=9))
    second = rq.pieces()[1]
    assert (second.offset, second.strides) == (offset, strides)
    assert second.header + second.data == stream(100, sequence=9)[0]


def test_split_without_merging(hca, make):
    rq = make(match=ShampoMatch.NO_MATCH)
    send(hca, *stream(1000, 1000))
    assert [(p.match, p.flush, p.offset) for p in rq.pieces()] == [
        (False, True, 0), (False, True, 1024),
    ]  # fmt: skip


def test_packets_of_a_large_send(hca, make):
    """As of another function of the server: its packets are one stream."""
    rq = make(posted=3, log_reservation=14, log_packets=4)
    whole = unsegmented(EthPacket(payload=b"x", flags=ACK).header(), bytes(12 * 1000), 1000)
    arrive(hca, Frame(whole, 1000, checked=True))
    pieces = rq.pieces()
    assert [piece.match for piece in pieces] == [False] + [True] * 11
    assert [piece.offset for piece in pieces] == [n * 1000 for n in range(12)]


@pytest.mark.parametrize("tir", [{}, LRO], ids=["plain", "LRO"])
def test_what_a_queue_splits_is_not_merged_by_lro(hca, make, tir):
    """The driver gives no TIR of such queues LRO (core/en/tir.c: build_packet_merge)."""
    rq = make(tir=tir)
    whole = unsegmented(EthPacket(payload=b"x", flags=ACK).header(), bytes(3 * 1000), 1000)
    arrive(hca, Frame(whole, 1000, checked=True))
    send(hca, *stream(500, 500, sequence=90_000))
    assert shown(rq.pieces()) == [
        (False, False, 4, TCP4, 1000), (True, False, 4, TCP4, 1000), (True, False, 4, TCP4, 1000),
        (False, False, 2, TCP4, 500), (True, False, 2, TCP4, 500),
    ]  # fmt: skip


def test_stripped_tags_are_in_no_header(hca, make):
    rq = make(vsd=0)
    send(hca, *stream(100, tags=((0x8100, 5),)))
    (piece,) = rq.pieces()
    assert piece.header + piece.data == stream(100)[0]
    assert piece.entry.vlan_info == 5


@pytest.mark.parametrize("state", [RqState.ERR, RqState.RST])
def test_a_stopped_queue_takes_nothing_more(hca, node, make, state):
    rq = make()
    send(hca, *stream(1000))
    rq.pieces()
    before = rq.region.read(), rq.headers.read()
    rq.modify(state)
    send(hca, *stream(1000, sequence=2000, identifier=8))
    node.settle()
    assert (rq.region.read(), rq.headers.read()) == before


def test_again_from_the_beginning(hca, node, make):
    rq = make()
    send(hca, *stream(1000))
    for state in (RqState.ERR, RqState.RST, RqState.RDY):
        rq.pieces()
        rq.modify(state)
        node.settle()
    rq.post_more()
    send(hca, *stream(1000, sequence=2000, identifier=8))
    assert [(p.match, p.index, p.offset) for p in rq.pieces()] == [(False, 0, 0)]


def test_headers_whose_key_is_gone(hca, driver, node, make):
    rq = make()
    driver.must(Op.DESTROY_MKEY, mkey_index=rq.headers.index)
    send(hca, *stream(1000))
    node.settle()
    assert rq.pieces()[0].entry.op_own >> 4 == CqeOpcode.RESP_ERR
    assert rq.query().state == RqState.ERR


def test_data_whose_memory_is_too_short(hca, node, make):
    rq = make()
    rq.request_bytes //= 8
    rq._write(0, 1)
    send(hca, *stream(1400, 1400))
    node.settle()
    assert rq.pieces()[-1].entry.op_own >> 4 == CqeOpcode.RESP_ERR


def test_what_the_driver_asks_before(driver):
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.DEV_SHAMPO << 1 | CapMode.CUR).raw[0x10:]
    caps = shampo_cap.view(page)
    assert caps.shampo_header_split
    assert caps.shampo_header_split_data_merge


@pytest.mark.parametrize(
    ("wq", "context", "status"),
    [
        ({"wq_type": WqType.CYCLIC}, {}, Status.BAD_PARAM_ERR),
        ({"log_reservation_size": 7}, {}, Status.BAD_PARAM_ERR),
        ({"log_wqe_stride_size": 7}, {}, Status.BAD_PARAM_ERR),
        ({"headers_mkey": 0x12300}, {}, Status.BAD_RES_ERR),
        ({}, {"shampo_no_match_alignment_granularity": 3}, Status.BAD_PARAM_ERR),
        ({}, {"shampo_match_criteria_type": 3}, Status.BAD_PARAM_ERR),
    ],
    ids=["not striding", "longer than a request", "shorter than a stride", "no key", "alignment",
         "criteria"],
)  # fmt: skip
def test_queues_that_cannot_be(node, cq, refused, wq, context, status):
    wq = {
        "wq_type": WqType.LINKED_LIST_STRIDING_RQ, "log_wqe_num_of_strides": 0xE,
        "shampo_enable": 1, "headers_mkey": node.region(4096).key,
    } | wq  # fmt: skip
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, wq=wq, **context)
    refused(status, Op.CREATE_RQ, **fields)


@pytest.mark.parametrize("limits", [{"shampo": 0}])
def test_an_adapter_without(node, cq, refused):
    wq = {"wq_type": WqType.LINKED_LIST_STRIDING_RQ, "shampo_enable": 1}
    fields, _ = rq_fields(node.driver, node.pdn, cq.cqn, wq=wq)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_RQ, **fields)


class Stack:
    """What mlx5e makes of completions, read plainly: packets as they were, and how they merge."""

    def __init__(self, rq):
        self.rq = rq
        self.in_use = {}
        """Strides, packets and end of data by (request, reservation)."""
        self.entries = 0
        self.last = None

    def take(self, pieces):
        """The packets as they were sent, after a look at all that the driver relies on."""
        rq, found = self.rq, []
        for piece in pieces:
            assert piece.entry.op_own >> 4 == CqeOpcode.RESP_SEND
            if piece.is_filler:
                self.last = None
                continue
            if piece.header:
                assert piece.index == self.entries % rq.entries
                self.entries += 1
            if piece.data:
                first, end = piece.offset, piece.offset + len(piece.data)
                assert first // rq.reservation == (end - 1) // rq.reservation
                count, until = self.in_use.get((piece.wqe_id, first // rq.reservation), (0, 0))
                assert first >= until
                assert count < rq.limit
                self.in_use[piece.wqe_id, first // rq.reservation] = count + 1, end
            if piece.match:
                assert self.last is not None
                assert not self.last.flush
                assert self.last.wqe_id == piece.wqe_id
                assert piece.offset == self.last.offset + len(self.last.data)
                _is_one_stream(self.last, piece)
            found.append(piece.header + piece.data)
            self.last = piece
        return found

    def forget(self, wqe_id):
        """A request whose strides are all consumed is the device's again."""
        self.rq.consumed[wqe_id] = 0
        for key in [key for key in self.in_use if key[0] == wqe_id]:
            del self.in_use[key]


def _is_one_stream(first, second):
    """Two packets of which the kernel makes one, with the header of the first."""
    sequences = [int.from_bytes(p.header[38:42], "big") for p in (first, second)]
    assert sequences[1] == (sequences[0] + len(first.data)) & 0xFFFFFFFF
    changes = (*range(16, 20), 24, 25, *range(38, 42), 47, 50, 51)
    one, other = (bytes(b for at, b in enumerate(p.header) if at not in changes)
                  for p in (first, second))  # fmt: skip
    assert one == other
    assert first.header[47] == ACK


streams = st.builds(
    lambda sizes, port, flags, ident: stream(
        *sizes, ports=bytes((4, port, 0, 80)), flags=flags, identifier=ident
    ),
    st.lists(st.sampled_from([0, 10, 100, 500, 500, 500, 1400]), min_size=1, max_size=6),
    st.integers(0, 1), st.sampled_from([ACK, ACK, ACK | PSH, ACK | FIN]), st.integers(0, 3),
)  # fmt: skip
others = st.sampled_from(
    [
        [MACS + b"\x08\x06" + bytes(46)],
        [EthPacket(protocol=UDP, payload=bytes(300)).frame()],
        [EthPacket(protocol=1, payload=bytes(700)).frame()],
    ]
)
steps = st.lists(st.one_of(streams, streams, others), min_size=1, max_size=30)


@settings(deadline=None)
@given(
    steps=steps, log_count=st.integers(4, 6), log_reservation=st.integers(12, 13),
    log_packets=st.integers(0, 4), align=st.sampled_from([ShampoAlignment.BYTE,
                                                          ShampoAlignment.STRIDE]),
)  # fmt: skip
def test_any_traffic_by_the_drivers_rules(steps, log_count, log_reservation, log_packets, align):
    node = node_alone(MODEL)
    log_reservation = min(log_reservation, log_count + 8)
    rq = queue_of(
        node, log_count=log_count, log_reservation=log_reservation, log_packets=log_packets,
        align=align, log_entries=8,
    )  # fmt: skip
    stack, wanted, found = Stack(rq), [], []
    freed = 0
    for frames in steps:
        for data in frames:
            arrive(node.hca, Frame(data.ljust(60, b"\0")))
            found += stack.take(rq.pieces())
            wanted.append(data.ljust(60, b"\0"))
            for number in range(rq.size):
                if rq.consumed[number] >= rq.count:
                    stack.forget(number)
                    freed += 1
            while rq.posted - freed < 3:
                rq.post_more()
        node.settle()  # the round ends
    assert found == wanted


def test_capabilities_by_model():
    assert LINKS["connectx7"][PortType.ETH].general["shampo"]
    for name in ("connectx6dx", "connectx5"):
        assert "shampo" not in LINKS[name][PortType.ETH].general
    assert "shampo" not in LINKS["connectx7"][PortType.IB].general
    assert TCP == 6
