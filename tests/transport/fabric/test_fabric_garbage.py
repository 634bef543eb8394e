"""Strangers at the hub's door, members that lie, and a hub that does: dropped, and nothing else."""

import contextlib
import logging
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.device.snapshot import slots
from helpers.net.raw_peers import packet_frame, port_of, train_frame
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.ib.endport import end_port, steps_of
from emu.device.port.ib.framing import IbRoute
from emu.device.port.ib.port import PKEY_TABLE_ENTRIES
from emu.device.port.packet import OPS, Packet
from emu.driver.transport.fabric import Fabric
from emu.driver.transport.raw_peer import RawPeer
from emu.server.net.fabric import port_reports, protocol
from emu.server.net.fabric.address import FabricError
from emu.server.net.fabric.connection import HARD_BYTES, LIFETIME_NS
from emu.server.net.fabric.hub import GREETING_NS, MAX_UNGREETED
from emu.server.net.fabric.protocol import HEADER, MAX_BODY, FrameKind, Identity
from layouts.enums.cqe import CqeSyndrome
from layouts.wire.bth import PacketKind, Service

pytestmark = pytest.mark.hostile

attacks = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def name(tmp_path):
    return f"unix:{tmp_path}/fabric"


@pytest.fixture
def hub(fabric):
    return fabric.join()


@pytest.fixture
def honest(fabric, hub):
    """A member that has nothing to do with it, and has to be served before and after."""
    member = fabric.join()
    yield member
    fabric.until(
        lambda: (
            member.wire.needs_packets(hub.node.lid, None)
            and hub.wire.needs_packets(member.node.lid, None)
        )
    )
    qp, peer = hub.node.queue_pair(), member.node.queue_pair()
    region = member.node.region(64)
    qp.init().to_rtr(member.node.lid, peer.qpn, 0x20).to_rts(0x10)
    peer.init().to_rtr(hub.node.lid, qp.qpn, 0x10).to_rts(0x20)
    qp.write((region.key, region.va), b"still here")
    assert [done.syndrome for done in fabric.completions(qp)] == [0]


def warnings(caplog):
    return [found.getMessage() for found in caplog.records if found.levelno >= logging.WARNING]


# Before the greeting.


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "frame of kind"),
        (HEADER.pack(1 << 31, FrameKind.HELLO), "frame of kind 1 with 2147483648 bytes"),
        (HEADER.pack(0, 0), "frame of kind 0"),
        (HEADER.pack(0, 99), "frame of kind 99"),
        (protocol.frame(FrameKind.PORT, b""), "PORT before HELLO"),
        (protocol.frame(FrameKind.WELCOME, b""), "WELCOME before HELLO"),
        (protocol.frame(FrameKind.HELLO, b""), "HELLO is too short"),
        (protocol.frame(FrameKind.HELLO, bytes(12)), "without the fabric's magic number"),
        (protocol.frame(FrameKind.HELLO, protocol.MAGIC + b"\0\x63\0\0"), "version 99"),
        (
            protocol.frame(FrameKind.HELLO, protocol.MAGIC + b"\0\1\0\0"),
            "version 1 of the fabric's",
        ),
        (protocol.frame(FrameKind.HELLO, protocol.MAGIC + b"\0\5\0\1"), "1 functions in 0 bytes"),
        (
            protocol.frame(FrameKind.HELLO, protocol.hello([Identity(3, 0, True)])),
            "kind 1 with LID 0x3",
        ),
        (protocol.frame(FrameKind.FRAME, bytes(64)), "FRAME before HELLO"),
        (protocol.frame(FrameKind.HELLO, protocol.hello([Identity(0xC000)])), "a LID is too high"),
        (protocol.frame(FrameKind.HELLO, protocol.hello([Identity(1)])), "belongs to another"),
        (protocol.frame(FrameKind.HELLO, protocol.hello([Identity(9), Identity(9)])), "another"),
    ],
)
def test_greeting_that_is_none(fabric, honest, caplog, said, why):
    peer = RawPeer.connected(fabric)
    peer.send(said)
    assert peer.is_dropped()
    (line,) = warnings(caplog)
    assert why in line
    peer.close()


def test_refusal_says_why(fabric, hub):
    peer = RawPeer.connected(fabric)
    peer.say(FrameKind.HELLO, protocol.hello([Identity(1)]))
    kind, body = peer.hear()
    assert kind is FrameKind.REFUSED
    assert protocol.read_reason(memoryview(body)).startswith("LID 0x1 belongs to another")


def test_who_says_nothing_does_not_stay(fabric, honest, caplog):
    peer = RawPeer.connected(fabric)
    peer.send(HEADER.pack(12, FrameKind.HELLO)[:5])
    fabric.loop.skip(GREETING_NS)
    assert peer.is_dropped()
    assert warnings(caplog) == [
        "fabric member 2: connection dropped: no HELLO within the time limit"
    ]


def test_crowd_at_the_door(fabric, hub, caplog):
    """Those that say nothing keep nobody out: the first of them has to go."""
    crowd = [RawPeer.connected(fabric) for _ in range(MAX_UNGREETED + 3)]
    fabric.settle()
    assert all("too many connections without HELLO" in line for line in warnings(caplog))
    assert len(warnings(caplog)) == 3
    assert all(peer.is_dropped() for peer in crowd[:3])
    assert fabric.join().node.lid == 2


def test_member_without_functions(fabric, hub):
    peer = RawPeer.connected(fabric)
    peer.say(FrameKind.HELLO, protocol.hello([]))
    assert peer.hear() == (FrameKind.REFUSED, b"HELLO without functions")


def test_more_members_than_there_may_be(fabric, hub, monkeypatch):
    monkeypatch.setattr("emu.server.net.fabric.hub.MAX_MEMBERS", 2)
    members = [RawPeer.member(fabric) for _ in range(2)]
    peer = RawPeer.connected(fabric)
    peer.say(FrameKind.HELLO, protocol.hello([Identity()]))
    assert peer.hear() == (FrameKind.REFUSED, b"more than 2 processes on the fabric")
    members[0].close()
    fabric.settle()
    RawPeer.member(fabric)


def test_come_and_go(fabric, honest):
    """Nothing is kept of those that leave without a word, not even for the time of a greeting."""

    def waiting():
        return sum(timer.callback is not None for _, _, timer in fabric.loop._heap)

    before = waiting()
    for _ in range(50):
        RawPeer.connected(fabric).close()
    fabric.until(lambda: waiting() <= before)


def test_half_a_frame_and_good_bye(fabric, honest, caplog):
    peer = RawPeer.member(fabric)
    peer.send(HEADER.pack(100, FrameKind.PACKET) + bytes(50))
    peer.close()
    fabric.settle()
    # It has left, or, with something that it has not read, been reset.
    assert [line for line in warnings(caplog) if "reset by peer" not in line] == []


# After it.


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (FrameKind.HELLO, "HELLO from a member"),
        (FrameKind.WELCOME, "WELCOME from a member"),
        (FrameKind.REFUSED, "REFUSED from a member"),
        (FrameKind.PORTS, "PORTS from a member"),
        (FrameKind.PORT, "a port is cut off"),
        (FrameKind.PACKET, "bad packet"),
        (FrameKind.TRAIN, "bad train"),
    ],
)
def test_member_that_breaks_the_protocol(fabric, honest, caplog, kind, why):
    peer = RawPeer.member(fabric)
    peer.say(kind, bytes(10))
    assert peer.is_dropped()
    (line,) = warnings(caplog)
    assert why in line


def test_port_that_is_not_its_own(fabric, hub, honest, caplog):
    peer = RawPeer.member(fabric)
    peer.say(FrameKind.PORT, port_of(honest))
    assert peer.is_dropped()
    assert "port with LID 0x2 of another process" in warnings(caplog)[0]
    assert hub.wire.needs_packets(2, None)


def test_a_guid_that_a_physical_function_has_set(fabric, hub, honest, caplog):
    """`ip link set ib0 vf 0 port_guid`, also to the GUID of another function."""
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    guids = []
    for guid in (0x1122_3344_5566_7788, honest.node.hca.ib.guid, hub.node.hca.ib.guid):
        peer.say(FrameKind.PORT, port_of(honest, lid=own.lid, port_guid=guid))
        fabric.settle()
        guids += [one.port_guid for one in hub.wire.end_ports() if one.lid == own.lid]
    assert guids == [0x1122_3344_5566_7788] * 3
    assert [line.split(" ", 2)[2] for line in warnings(caplog)] == [
        f"of LID {own.lid:#x} belongs to another port"
    ] * 2
    peer.close()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lid": 0}, "LID 0x0"),
        ({"lid": 0xBFFF}, "LID 0xbfff"),
        ({"mtu": 77}, "MTU 77"),
        ({"subnet_timeout": 32}, "a port with"),
        ({"state": 9}, "9 is not a valid"),
        ({"phys_state": 200}, "200 is not a valid"),
    ],
)
def test_port_that_cannot_be(fabric, honest, caplog, changes, why):
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    changes = {"lid": own.lid, "port_guid": own.guid} | changes
    peer.say(FrameKind.PORT, port_of(honest, **changes))
    assert peer.is_dropped()
    assert why in warnings(caplog)[0]


def test_packet_under_a_foreign_lid(fabric, hub, honest, caplog):
    """It would be taken for the other's by a queue pair that is connected to that one."""
    peer = RawPeer.member(fabric)
    peer.say(FrameKind.PACKET, packet_frame(honest.node.lid))
    assert peer.is_dropped()
    assert "packet with foreign source LID 0x2" in warnings(caplog)[0]


@pytest.mark.parametrize("at", [2, 6, 8, 16], ids=["DLID", "SLID", "opcode", "PSN"])
def test_headers_of_a_train_that_is_passed_on_are_those_that_were_checked(
    fabric, hub, monkeypatch, at
):
    """The sender may write the memory in which the train is while the hub looks at it."""
    parse_train = hub.wire.parse_train

    def change(frame):
        found = parse_train(frame)
        frame[at : at + 2] = b"\0\7"
        return found

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(hub.wire, "parse_train", change)
    monkeypatch.setattr(os, "memfd_create", refuse)  # so that the socket takes it
    sender, receiver = RawPeer.member(fabric), RawPeer.member(fabric)
    said = train_frame(sender.identities[0].lid, receiver.identities[0].lid)
    sender.say(FrameKind.TRAIN, said)
    kind, body = receiver.hear()
    while kind is not FrameKind.TRAIN:
        kind, body = receiver.hear()
    assert body == said


def test_answers_that_nobody_has_asked_for(fabric, hub, honest, caplog):
    """Packets of its own that fit nothing go nowhere; the member stays."""
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    qp = hub.node.queue_pair()
    qp.init().to_rtr(own.lid, 0x123, 0).to_rts(0)
    for kind in (PacketKind.ACKNOWLEDGE, PacketKind.READ_RESPONSE):
        peer.say(FrameKind.PACKET, packet_frame(own.lid, hub.node.lid, kind, qp.qpn))
    fabric.settle()
    assert warnings(caplog) == []
    assert qp.cq.drain() == []


def test_member_that_does_not_read(fabric, hub, honest, caplog):
    """Its packets are lost after a link's lifetime; whoever waits for it is told by its retries."""
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    peer.say(FrameKind.PORT, port_of(hub, lid=own.lid, port_guid=own.guid))
    fabric.until(lambda: hub.wire.needs_packets(own.lid, None))
    qp, region = hub.node.queue_pair(), hub.node.region(1 << 20)
    qp.init().to_rtr(own.lid, 0x123, 0, mtu=5).to_rts(0, ack_timeout=12, retry_count=1)
    for _ in range(16):
        qp.write((1, 0), region.sge())
    fabric.settle()
    fabric.loop.skip(LIFETIME_NS)
    found = fabric.completions(qp, 16)
    assert found[0].syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert {done.syndrome for done in found[1:]} == {CqeSyndrome.WR_FLUSH_ERR}


def test_member_that_never_reads_what_it_has_to_know(fabric, hub, honest, caplog, monkeypatch):
    """It gets the latest news when it has read those before, and has to go if it never does."""
    monkeypatch.setattr(port_reports, "MAX_MISSED", 50)
    role = hub.wire.election.role
    others = set(role._members)
    peer = RawPeer.member(fabric)
    (connection,) = role._members.keys() - others
    fabric.settle()
    connection._set_blocked(True)
    connection.on_writable = lambda: None
    tries = 0
    while set(role._members) != others:
        tries += 1
        assert tries <= 52
        assert connection._other_bytes < HARD_BYTES // 100
        role.reports.to_all()
        role.reports.publish()
        fabric.step()
    assert tries > 10
    assert "the member does not read" in warnings(caplog)[-1]
    peer.close()


def test_a_member_of_many_ports_that_change_throws_nobody_out(fabric, hub, caplog):
    """However often it repeats them, and however slowly the others read."""
    slow = RawPeer.member(fabric)
    noisy = RawPeer.member(fabric, *[Identity()] * 900)
    role = hub.wire.election.role
    members = set(role._members)
    published, publish = [], role.reports.publish
    role.reports.publish = lambda: published.append(1) or publish()
    for mtu in (1024, 2048) * 20:
        noisy.send(
            b"".join(
                protocol.frame(
                    FrameKind.PORT, port_of(hub, lid=own.lid, port_guid=own.guid, mtu=mtu)
                )
                for own in noisy.identities
            )
        )
    fabric.settle()
    assert set(role._members) == members
    assert not warnings(caplog)
    assert max(one._other_bytes for one in members) < HARD_BYTES // 4
    slow.close()
    noisy.close()


def test_ports_of_a_process_share_its_part_of_the_administrator(fabric, hub, honest):
    first, other = RawPeer.member(fabric, Identity(), Identity()), RawPeer.member(fabric)
    lids = [own.lid for peer in (first, other) for own in peer.identities] + [hub.node.lid]
    hosts = [hub.wire.host_of(lid) for lid in lids]
    assert hosts[0] == hosts[1]
    assert len(set(hosts)) == 3


def test_ports_are_charged_when_they_are_reported(fabric, hub, honest):
    """Those that have changed are packed, and all are compared; the others hear of them first."""
    noisy = RawPeer.member(fabric, *[Identity()] * 200)
    role, budget = hub.wire.election.role, hub.node.hca.budget
    fabric.settle()
    pkeys = tuple(range(0x8001, 0x8001 + PKEY_TABLE_ENTRIES))
    (member,) = (one for one in role._members.values() if len(one.identities) > 1)
    for own in noisy.identities:
        member.ports[own.lid] = replace(
            end_port(hub.node.hca.port), lid=own.lid, port_guid=own.guid, pkeys=pkeys
        )
    of_ports = steps_of(list(member.ports.values()))
    role.reports.changed()
    costs = []
    for _ in range(2):
        budget.begin()
        role.reports.publish()
        costs.append(budget.steps)
    assert all(one.is_informed for one in role._members.values() if one is not member)
    assert costs[0] > 2 * of_ports
    assert costs[1] < of_ports
    noisy.close()


def test_flood_of_news(fabric, hub, honest, caplog):
    """Others are told of ports no more often than they can hear of it."""
    peer = RawPeer.member(fabric, *[Identity()] * 50)
    ports = [
        protocol.frame(FrameKind.PORT, port_of(hub, lid=own.lid, port_guid=own.guid, mtu=mtu))
        for mtu in (1024, 2048)
        for own in peer.identities
    ]
    assert peer.send(b"".join(ports * 20))
    fabric.until(lambda: honest.wire.needs_packets(peer.identities[-1].lid, None))
    assert warnings(caplog) == []


# By chance.

kinds = st.sampled_from(FrameKind)
frames = st.tuples(kinds, st.binary(max_size=200)).map(lambda said: protocol.frame(*said))
noise = st.lists(st.one_of(st.binary(max_size=100), frames), min_size=1, max_size=8)


@attacks
@given(noise, st.booleans())
def test_noise(fabric, hub, said, greeted):
    peer = RawPeer.member(fabric) if greeted else RawPeer.connected(fabric)
    for data in said:
        if not peer.send(data):
            break
    peer.close()
    fabric.settle()
    assert not hub.wire.election.role._members


@st.composite
def damaged(draw):
    """Something that a member may say, with some of its bytes changed."""
    which = draw(st.sampled_from(["port", *PacketKind]))
    return which, draw(
        st.lists(st.tuples(st.integers(0, 255), st.integers(1, 255)), min_size=1, max_size=4)
    )


@attacks
@given(st.lists(damaged(), min_size=1, max_size=6))
def test_damaged_messages(fabric, hub, messages):
    before = hub.node.memory.contents()
    with contextlib.closing(RawPeer.member(fabric)) as peer:
        (own,) = peer.identities
        for message in messages:
            if not peer.send(_damaged_frame(hub, own, *message)):
                break
    fabric.until(lambda: not hub.wire.election.role._members)
    assert hub.node.memory.contents() == before


def _damaged_frame(hub, own, which, changes):
    if which == "port":
        body = bytearray(port_of(hub, lid=own.lid, port_guid=own.guid))
        kind = FrameKind.PORT
    else:
        body, kind = bytearray(_packet_of(which, own.lid)), FrameKind.PACKET
    for at, mask in changes:
        body[at % len(body)] ^= mask
    return protocol.frame(kind, bytes(body))


def _packet_of(kind, slid):
    """A packet of any kind with zeros in its headers."""
    services = (Service.UD, Service.RC, Service.CNP)
    op = next(
        op for (service, has, first, last, _), op in OPS.items()
        if service in services and has is kind and first and last
    )  # fmt: skip
    packet = Packet().of(op, 0x40, 0)
    for name in slots(Packet) or Packet.__annotations__:  # compiled classes lack annotations
        if not hasattr(packet, name):
            setattr(packet, name, None if name == "grh" else 0)
    return IbRoute(1, slid, 0, 0xFFFF, None).frame(packet)


# A hub that lies.


class LyingHub:
    """Listens at the fabric's address; says what it is told to at once, and the lie later."""

    def __init__(self, fabric, answer, lie=b""):
        self.fabric, self.answer, self.lie = fabric, answer, lie
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(fabric.name.removeprefix("unix:"))
        self.sock.listen()
        self.asked = 0
        fabric.loop.add_reader(self.sock.fileno(), self._accept)
        fabric.cleanup.callback(self.sock.close)

    def _accept(self):
        client, _ = self.sock.accept()
        self.fabric.cleanup.callback(client.close)
        self._say(client, self.answer)
        self.fabric.loop.call_later(20_000_000, lambda: self._say(client, self.lie))
        self.asked += 1

    def _say(self, client, text):
        with contextlib.suppress(BrokenPipeError):
            client.sendall(text)

    def close(self):
        self.fabric.loop.remove_reader(self.sock.fileno())
        self.sock.close()


WELCOME = protocol.frame(FrameKind.WELCOME, protocol.welcome([Identity(5, 0x1234)]))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (protocol.frame(FrameKind.REFUSED, protocol.reason("not \x1b[31myou")), r"not \?\[31myou"),
        (protocol.frame(FrameKind.REFUSED, b"\xff" * MAX_BODY[FrameKind.REFUSED]), "\ufffd"),
        (protocol.frame(FrameKind.WELCOME, protocol.welcome([])), "WELCOME"),
        (protocol.frame(FrameKind.WELCOME, protocol.welcome([Identity(0, 1)])), "WELCOME"),
        (protocol.frame(FrameKind.PORTS, b""), "PORTS before WELCOME"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "frame of kind"),
    ],
    ids=["escape", "no text", "nobody", "no lid", "ports", "another protocol"],
)
def test_hub_that_is_none(name, answer, why):
    with Fabric(name) as fabric:
        liar = LyingHub(fabric, answer)
        fabric.loop.call_later(1 << 28, lambda: fabric.loop.skip(1 << 40))
        with pytest.raises(FabricError, match=why):
            fabric.join()
        assert Path(fabric.name.removeprefix("unix:")).is_socket()
        liar.close()


@pytest.mark.parametrize(
    "lie",
    [
        protocol.frame(FrameKind.PORTS, b"x"),
        protocol.frame(FrameKind.PACKET, b"x"),
        protocol.frame(FrameKind.HELLO, b"x"),
        HEADER.pack(5, 77),
    ],
    ids=["ports", "packet", "hello", "no kind"],
)
def test_hub_that_breaks_the_protocol_is_left(name, caplog, lie):
    with Fabric(name) as fabric:
        liar = LyingHub(fabric, WELCOME, lie)
        member = fabric.join()
        fabric.until(lambda: liar.asked >= 3)
        liar.close()
        fabric.until(lambda: member.wire.is_hub)
        assert member.node.lid == 5
    (line,) = warnings(caplog)
    assert "the hub is lost: " in line
