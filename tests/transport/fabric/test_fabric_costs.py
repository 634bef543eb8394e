"""What a member of a fabric can make the others do in one round of their loop, in steps."""

import socket

import pytest
from helpers.net.raw_peers import packet_frame, port_of

from emu.device.rounds.sizes import PACKETS_PER_CONNECTION, PACKETS_PER_ROUND
from emu.driver.transport.fabric import Fabric
from emu.driver.transport.raw_peer import RawPeer
from emu.server.net.fabric import address, hub, port_frames, protocol
from emu.server.net.fabric.protocol import FrameKind, Identity

pytestmark = pytest.mark.hostile


@pytest.fixture
def name(tmp_path):
    return f"unix:{tmp_path}/fabric"


@pytest.fixture
def hub_process(fabric):
    return fabric.join()


def flood(peer, frame):
    """As many frames as fit into the socket, without a round of the loop in between."""
    data = memoryview(frame * (1 + (1 << 18) // len(frame)))
    sent = 0
    try:
        while sent < len(data):
            sent += peer.sock.send(data[sent:])
    except BlockingIOError:
        pass
    assert sent > 4 * PACKETS_PER_ROUND * len(frame)


@pytest.fixture
def handled(monkeypatch):
    """The LIDs that packets have come from, one list for each round."""
    rounds = [[]]
    original = hub.Hub._forward

    def forward(self, source, member, body):
        rounds[-1].append(member.identities[0].lid)
        return original(self, source, member, body)

    monkeypatch.setattr(hub.Hub, "_forward", forward)
    return rounds


def test_packets_of_one_member(fabric, hub_process, handled):
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    flood(peer, protocol.frame(FrameKind.PACKET, packet_frame(own.lid)))
    for _ in range(20):
        fabric.loop.step(0)
        handled.append([])
    assert max(map(len, handled)) <= 2 * PACKETS_PER_CONNECTION
    assert sum(map(len, handled)) > 10 * PACKETS_PER_CONNECTION


def test_packets_of_many_members_take_turns(fabric, hub_process, handled):
    crowd = [RawPeer.member(fabric) for _ in range(12)]
    for peer in crowd:
        (own,) = peer.identities
        flood(peer, protocol.frame(FrameKind.PACKET, packet_frame(own.lid)))
    for _ in range(12):
        fabric.loop.step(0)
        handled.append([])
    assert max(map(len, handled)) <= 2 * PACKETS_PER_ROUND
    counts = [sum(found.count(own.identities[0].lid) for found in handled) for own in crowd]
    assert min(counts) > 0
    assert max(counts) - min(counts) <= 2 * PACKETS_PER_CONNECTION


def test_multicast_counts_as_often_as_it_is_sent_on(fabric, hub_process, handled):
    crowd = [RawPeer.member(fabric) for _ in range(9)]
    (own,) = crowd[0].identities
    flood(crowd[0], protocol.frame(FrameKind.PACKET, packet_frame(own.lid, multicast=True)))
    for _ in range(10):
        fabric.loop.step(0)
        handled.append([])
    assert 0 < max(map(len, handled)) <= 2 * PACKETS_PER_CONNECTION // 8


def test_news_of_ports_are_gathered(fabric, hub_process, monkeypatch):
    """However often a port changes, its subnet is swept and told of once in a round."""
    peer = RawPeer.member(fabric, *[Identity()] * 8)
    crowd = [RawPeer.member(fabric) for _ in range(8)]
    fabric.settle()
    sweeps, packed = [], []
    monkeypatch.setattr(hub_process.wire.sa, "sweep", lambda: sweeps.append(1))
    pack = port_frames.port
    news = b"".join(
        protocol.frame(
            FrameKind.PORT, port_of(hub_process, lid=own.lid, port_guid=own.guid, mtu=mtu)
        )
        for mtu in (1024, 2048) * 6
        for own in peer.identities
    )
    monkeypatch.setattr(port_frames, "port", lambda port: (packed.append(1), pack(port))[1])
    peer.sock.send(news)
    fabric.settle()
    assert len(sweeps) == 1
    assert len(packed) == 1 + 8
    assert crowd


def test_port_that_has_not_changed_is_no_news(fabric, hub_process, monkeypatch):
    peer = RawPeer.member(fabric)
    (own,) = peer.identities
    news = protocol.frame(FrameKind.PORT, port_of(hub_process, lid=own.lid, port_guid=own.guid))
    peer.send(news)
    fabric.settle()
    sweeps = []
    monkeypatch.setattr(hub_process.wire.sa, "sweep", lambda: sweeps.append(1))
    peer.send(news * 10)
    fabric.settle()
    assert not sweeps


@pytest.mark.parametrize("guid", ["its own", "another's"])
def test_changed_ports_cost_the_comparisons_with_all_others(fabric, hub_process, monkeypatch, guid):
    taken = [0]
    original = hub.Hub._take_port

    def take_port(self, source, member, port):
        taken[-1] += 1
        return original(self, source, member, port)

    monkeypatch.setattr(hub.Hub, "_take_port", take_port)
    peer = RawPeer.member(fabric, *[Identity()] * 500)
    port = {"lid": peer.identities[0].lid, "port_guid": peer.identities[guid != "its own"].guid}
    changes = [port_of(hub_process, mtu=mtu, **port) for mtu in (1024, 2048)]
    peer.send(b"".join(protocol.frame(FrameKind.PORT, change) for change in changes * 100))
    for _ in range(20):
        fabric.loop.step(0)
        taken.append(0)
    assert sum(taken) == 200
    assert max(taken) <= 2 * PACKETS_PER_CONNECTION // (500 >> 6)


# Where the processes meet.


def test_name_is_looked_up_once(monkeypatch):
    calls = []
    original = socket.getaddrinfo

    def counted(*args, **options):
        calls.append(args)
        return original(*args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", counted)
    address._resolved.cache_clear()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"tcp:localhost:{free.getsockname()[1]}"
    with Fabric(where) as lab:
        first, second = lab.join(), lab.join()
        first.leave()
        lab.until(lambda: second.wire.is_hub)
        assert len(calls) == 1


def test_host_that_vanishes_is_noticed():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = address.TcpAddress("127.0.0.1", free.getsockname()[1])
    listener = where.listen()
    client = where.connect()
    server = None
    while server is None:
        server = listener.accept()
    for sock in (client, server):
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        interval = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        count = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert idle + interval * count <= 30
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000
        sock.close()
    listener.close()
