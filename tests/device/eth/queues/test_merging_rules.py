"""Separate packets that are merged: what may be, by a second and simple reading of the rules."""

from struct import unpack_from

import pytest
from helpers.device.lro import LRO, PERIOD_NS
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.split_queue import SplitQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType

ACK, PSH, FIN, SYN, CWR, URG = 0x10, 0x08, 0x01, 0x02, 0x80, 0x20
HEADER = 54
SHORT_LRO = LRO | {"packet_merge_mask": 1, "lro_max_ip_payload_size": 16}
MOST = 16 << 8
"""Bytes behind the IP header of a packet merged by LRO here, and of a reservation."""


@pytest.fixture
def base_model():
    return LINKS["connectx7"][PortType.ETH]


@pytest.fixture
def queue(node, driver, td, request):
    """A queue with LRO, or one that splits headers: both merge 4 KiB at most."""

    def of(kind):
        if kind == "lro":
            queue = StridingQueue(node, log_size=2, log_count=6, log_stride_size=8)
            tirn = create_direct_tir(driver, td, queue.rqn, **SHORT_LRO)
        else:
            queue = SplitQueue(
                node, log_size=2, log_count=6, log_packets=6, timeout=32, log_entries=5
            )
            tirn = create_direct_tir(driver, td, queue.rqn)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
        queue.post_more(3)
        return queue

    return of


def packet(port, sequence, size, flags, **parts):
    payload = bytes(sequence + n & 0xFF for n in range(size))
    return EthPacket(
        ports=bytes((4, port, 0, 80)), sequence=sequence, flags=flags, payload=payload, **parts
    )


def belongs(group, new, kind):
    """Whether a packet may be merged with those of a group, in words as plain as can be."""
    first, last = group[0], group[-1]
    same = ("ports", "tos", "options", "version", "source", "destination", "tags", "fragment")
    if any(getattr(first, name) != getattr(new, name) for name in same):
        return False
    if not (is_plain(new, kind) and first.flags & CWR == new.flags & CWR):
        return False
    if new.sequence != last.sequence + len(last.payload):
        return False
    if len(new.payload) > len(first.payload):
        return False
    steps = [two.identifier - one.identifier for one, two in zip(group, [*group[1:], new])]
    if set(steps) not in ({0}, {1}):
        return False
    octets = sum(len(one.payload) for one in (*group, new))
    return octets + (20 + len(new.options) if kind == "lro" else 0) <= MOST


def is_plain(new, kind):
    """Whether a packet may be merged with any other one."""
    if not new.payload or new.protocol == UDP or new.flags & (SYN | URG):
        return False
    if kind == "lro":
        return not new.flags & FIN
    return len(new.frame()) > 68  # else the driver takes it for a padded one


def ends(group, new):
    return bool(new.flags & (PSH | FIN)) or len(new.payload) < len(group[0].payload)


def groups_of(events, kind):
    """The packets as they are delivered: those that are merged together, in their order."""
    done, held = [], {}
    for event in events:
        if event is None:  # the period is over
            done += held.values()
            held.clear()
            continue
        key = event.ports if event.protocol != UDP else None
        if key is None:
            done += [*held.values(), [event]]
            held.clear()
            continue
        group = held.get(key)
        if group is not None and belongs(group, event, kind):
            group.append(event)
        else:
            if group is not None:
                done.append(held.pop(key))
            group = [event]
            if is_plain(event, kind):
                held[key] = group
            else:
                done.append(group)
                continue
        if event.flags & (PSH | FIN) or ends(group, event):
            done.append(held.pop(key))
    return done + list(held.values())


def seen(queue, kind):
    """The packets' payloads by group, as the driver puts them together."""
    found = []
    if kind == "lro":
        for piece in queue.drain():
            if not piece.is_filler:
                found.append((piece.entry.srqn >> 24 or 1, piece.data))
        return found
    previous = None
    for piece in queue.pieces():
        if piece.is_filler:
            previous = None
            continue
        if piece.match and previous is not None and not previous.flush:
            count, data = found.pop()
            found.append((count + 1, data + piece.data))
        else:
            found.append((1, piece.data if piece.header else piece.header + piece.data))
        previous = piece
    return found


def regrouped(got, merged):
    """Pieces as groups again: a group is cut where a reservation ends, and only there."""
    found, rest = [], list(got)
    for group in merged:
        count, data = 0, b""
        while rest and count < len(group):
            more, part = rest.pop(0)
            count, data = count + more, data + part
        found.append((count, data))
    return found + rest


packets = st.builds(
    lambda port, size, flags, options, more: (port, size, flags, options, more),
    st.integers(0, 1), st.sampled_from([0, 3, 200, 200, 200, 200, 700, 1400]),
    st.sampled_from([ACK] * 6 + [ACK | PSH, ACK | FIN, ACK | SYN, ACK | CWR, ACK | URG]),
    st.sampled_from([b""] * 4 + [bytes(4)]),
    st.sampled_from([{}] * 6 + [{"tos": 4}, {"gap": 5}, {"step": 0}, {"step": 2}]),
)  # fmt: skip
events = st.lists(st.one_of(packets, packets, packets, st.sampled_from([None, UDP])), max_size=20)


@pytest.mark.parametrize("kind", ["lro", "split"])
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=examples(40),
)
@given(events=events)
def test_any_packets(hca, node, clock, queue, kind, events):
    rq = queue(kind)
    sequence, identifier = [1000, 5000], [7, 9]
    sent = []
    for event in events:
        if event is None:
            clock.advance(PERIOD_NS)
            sent.append(None)
            continue
        if event == UDP:
            made = EthPacket(protocol=UDP, payload=bytes(300), chain=UDP)
        else:
            port, size, flags, options, more = event
            more = dict(more)
            sequence[port] += more.pop("gap", 0)
            identifier[port] += more.pop("step", 1)
            made = packet(
                port, sequence[port], size, flags, options=options, identifier=identifier[port],
                **more,
            )  # fmt: skip
            sequence[port] += size
        sent.append(made)
        arrive(hca, Frame(made.frame().ljust(60, b"\0")))
        if len(sent) % 8 == 0:
            node.settle()
    clock.advance(PERIOD_NS)
    merged = groups_of(sent, kind)
    got = regrouped(seen(rq, kind), merged) if kind == "split" else seen(rq, kind)
    assert [count for count, _ in got] == [len(group) for group in merged]
    for (_, data), group in zip(got, merged):
        wanted = b"".join(one.payload for one in group)
        if len(group) > 1:
            assert data[HEADER + len(group[0].options) if kind == "lro" else 0 :] == wanted
        else:
            assert wanted in data


def test_macs_are_of_the_stream(hca, clock, queue):
    """Packets for another address in the same stream are another one's."""
    rq = queue("lro")
    one, two = (packet(0, at, 200, ACK).frame() for at in (1000, 1200))
    arrive(hca, Frame(one))
    arrive(hca, Frame(MACS[:5] + b"\x77" + two[6:]))
    clock.advance(PERIOD_NS)
    assert [count for count, _ in seen(rq, "lro")] == [1, 1]


@pytest.mark.parametrize("kind", ["lro", "split"])
@pytest.mark.parametrize("at", [24, 50], ids=["IP", "TCP"])
def test_wrong_checksums_end_it(hca, clock, queue, kind, at):
    rq = queue(kind)
    frames = [packet(0, 1000 + n * 200, 200, ACK, identifier=n).frame() for n in range(3)]
    wrong = bytearray(frames[1])
    wrong[at] ^= 1
    for data in (frames[0], bytes(wrong), frames[2]):
        arrive(hca, Frame(data))
    clock.advance(PERIOD_NS)
    assert [count for count, _ in seen(rq, kind)] == [1, 1, 1]


def test_the_merged_header_is_the_first_one(hca, clock, queue):
    rq = queue("lro")
    for n in range(3):
        arrive(hca, Frame(packet(0, 1000 + n * 200, 200, ACK, identifier=n).frame()))
    clock.advance(PERIOD_NS)
    (piece,) = rq.drain()
    assert unpack_from(">I", piece.data, 38) == (1000,)
    assert unpack_from(">H", piece.data, 18) == (0,)
