"""``--net stream=PATH`` with real sockets: what passes, and peers that mean no good."""

import logging
import socket
from struct import pack

import pytest
from helpers.net.segment import EVERYONE, OURS, THEIRS, Host, Peer, Wall, ethernet
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.checksum import verify
from emu.device.port.eth.headers import parse
from emu.device.rounds.sizes import PACKETS_PER_CONNECTION
from emu.driver.ethernet.frames import EthPacket
from emu.server.net.eth import framed, stream

HELLO = ethernet(EVERYONE, THEIRS, 0x88B5, b"hello")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net"


@pytest.fixture
def wall(path):
    wall = Wall(f"stream={path}")
    yield wall
    wall.close()
    assert not path.exists()


@pytest.fixture
def peer(wall, path):
    peer = Peer(path)
    wall.until(lambda: wall.uplink("stream"))
    yield peer
    peer.close()


def served(wall, path):
    """An honest peer is served."""
    before = len(wall.uplink("stream"))
    honest = Peer(path)
    wall.until(lambda: len(wall.uplink("stream")) > before)
    wall.host.got.clear()
    honest.send(ethernet(EVERYONE, b"\x02\0\0\0\0\x77", 0x88B5, b"honest"))
    wall.until(lambda: any(b"honest" in frame.data for frame in wall.host.got))
    wall.host.send(ethernet(b"\x02\0\0\0\0\x77", OURS, 0x88B5, b"answer"))
    got = []
    wall.until(lambda: got.extend(honest.frames()) or got)
    assert b"answer" in got[0]
    honest.close()
    wall.until(lambda: len(wall.uplink("stream")) <= before)


def test_frames_pass_both_ways(wall, peer):
    peer.send(HELLO)
    wall.until(lambda: wall.host.got)
    (frame,) = wall.host.got
    assert frame.data == HELLO.ljust(60, b"\0")
    assert not frame.checked
    wall.host.send(ethernet(THEIRS, OURS, 0x88B5, bytes(1500)))
    assert [len(data) for data in peer.frames()] == [1514]


def test_two_peers_and_what_is_for_one_of_them(wall, path, peer):
    other = Peer(path)
    wall.until(lambda: len(wall.uplink("stream")) == 2)
    peer.send(HELLO)
    wall.until(lambda: wall.host.got)
    assert other.frames() == [HELLO.ljust(60, b"\0")]
    wall.host.send(ethernet(THEIRS, OURS, 0x88B5))
    assert len(peer.frames()) == 1
    assert other.frames() == []
    other.close()
    wall.until(lambda: len(wall.uplink("stream")) == 1)


def test_a_super_frame_arrives_in_pieces_with_checksums(wall, peer):
    payload = bytes(range(256)) * 200
    data = EthPacket(payload=payload, checked=False).frame()
    wall.host.send(data, gso_size=1448, checked=True)
    frames = peer.frames()
    assert b"".join(frame[54:] for frame in frames) == payload
    assert all(verify(parse(frame)).l4_ok for frame in frames)


def test_frames_in_many_small_parts(wall, peer):
    data = b"".join(pack(">I", len(HELLO)) + HELLO for _ in range(3))
    for at in range(0, len(data), 7):
        peer.sock.sendall(data[at : at + 7])
        wall.loop.step(0)
    wall.until(lambda: len(wall.host.got) == 3)


def test_a_peer_that_comes_again(wall, path, peer):
    peer.close()
    wall.until(lambda: not wall.uplink("stream"))
    served(wall, path)


def test_a_path_in_use(path, wall):
    with pytest.raises(OSError, match="another process listens at this path") as caught:
        Wall(f"stream={path}")
    assert caught.value.filename == str(path)


@pytest.mark.hostile
def test_a_peer_that_does_not_read_costs_a_bounded_queue(wall, path, peer):
    for _ in range(4000):
        wall.host.send(ethernet(THEIRS, OURS, 0x88B5, bytes(1500)))
    (uplink,) = wall.uplink("stream")
    assert uplink._queued <= framed.MAX_QUEUED
    assert uplink.dropped["queue full"] > 1000
    assert uplink.sent + uplink.dropped["queue full"] == 4000
    peer.send(HELLO)  # it is heard all the same
    wall.until(lambda: wall.host.got)
    served(wall, path)
    got = []
    wall.until(lambda: got.extend(peer.frames()) or len(got) >= uplink.sent)
    assert all(len(data) == 1514 for data in got if data[6:12] == OURS)


@pytest.mark.hostile
def test_a_length_that_no_frame_has_ends_the_connection(wall, path, peer, caplog):
    peer.send(HELLO)
    peer.sock.sendall(pack(">I", framed.MAX_BODY + 1))
    wall.until(lambda: not wall.uplink("stream"))
    assert len(wall.host.got) == 1
    assert [line for line in caplog.messages if f"a frame of {framed.MAX_BODY + 1} bytes" in line]
    served(wall, path)


@pytest.mark.hostile
def test_lengths_that_are_too_short_are_counted(wall, peer):
    peer.send(b"", b"x", bytes(13), HELLO)
    wall.until(lambda: wall.host.got)
    (uplink,) = wall.uplink("stream")
    assert uplink.dropped["bad length"] == 3


@pytest.mark.hostile
def test_half_a_frame_and_gone(wall, path, peer, caplog):
    peer.sock.sendall(pack(">I", 1000) + bytes(10))
    wall.settle()
    peer.close()
    wall.until(lambda: not wall.uplink("stream"))
    served(wall, path)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.hostile
def test_very_many_frames_are_taken_in_shares(wall, peer, monkeypatch):
    calls = []
    take = framed.FramedUplink.take
    monkeypatch.setattr(
        framed.FramedUplink, "take", lambda self, most: calls.append(take(self, most)) or calls[-1]
    )
    peer.send(*[HELLO] * 1000)
    wall.until(lambda: len(wall.host.got) == 1000)
    assert max(calls) <= PACKETS_PER_CONNECTION
    assert len(calls) > 5


@pytest.mark.hostile
def test_many_peers(wall, path, caplog):
    caplog.set_level(logging.WARNING)
    peers = []
    for _ in range(stream.MAX_PEERS + 3):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(path))
        peers.append(sock)
        wall.settle()
    assert len(wall.uplink("stream")) == stream.MAX_PEERS
    assert len([line for line in caplog.messages if "refused" in line]) == 3
    for sock in peers:
        sock.close()
    wall.until(lambda: not wall.uplink("stream"))
    served(wall, path)


@pytest.mark.hostile
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 1 << 32).map(
    lambda length: pack(">I", length & 0xFFFFFFFF)), st.binary(max_size=90).map(
    lambda data: pack(">I", len(data)) + data)), max_size=12))  # fmt: skip
def test_random_bytes(wall, path, said):
    before = len(wall.uplink("stream"))
    peer = Peer(path)
    wall.until(lambda: len(wall.uplink("stream")) > before)
    try:
        for data in said:
            peer.sock.sendall(data)
            wall.loop.step(0)
    except (BrokenPipeError, ConnectionResetError):
        pass
    wall.settle()
    peer.close()
    wall.until(lambda: len(wall.uplink("stream")) <= before)
    served(wall, path)


class Slow(Host):
    """A function whose driver has no receive requests until it is told to."""

    left = 0

    def credits(self, now_ns):
        return self.left

    def deliver(self, frame):
        super().deliver(frame)
        self.left -= 1


def test_a_peer_waits_for_a_driver_without_receive_requests(path):
    wall = Wall(f"stream={path}")
    slow = Slow(wall)
    peer = Peer(path)
    wall.until(lambda: wall.uplink("stream"))
    peer.send(*[HELLO] * 300)
    wall.settle()
    assert slow.got == []
    for most in (3, 250, 300):
        slow.left = most - len(slow.got)
        wall.until(lambda most=most: len(slow.got) == most)
        wall.settle()
        assert len(slow.got) == most
    slow.left = 1
    peer.close()
    wall.until(lambda: not wall.uplink("stream"))
    wall.close()


@pytest.mark.hostile
def test_a_peer_that_leaves_while_it_waits(path):
    wall = Wall(f"stream={path}")
    slow = Slow(wall)
    peer = Peer(path)
    wall.until(lambda: wall.uplink("stream"))
    peer.send(HELLO)
    wall.settle()
    peer.close()
    slow.left = 10
    wall.until(lambda: not wall.uplink("stream"))
    assert len(slow.got) == 1
    wall.close()


@pytest.mark.hostile
def test_a_peer_that_dies_in_mid_frame_while_a_driver_is_behind(wall, path, peer, caplog):
    """Its reset is found when there is no room for what it has sent before."""
    (uplink,) = wall.uplink("stream")
    wall.segments.segment(0).credits = lambda: 0
    peer.sock.sendall(pack(">I", 1000) + bytes(500))
    wall.until(lambda: uplink._filled)
    wall.host.send(ethernet(EVERYONE, OURS, 0x88B5, bytes(100)))
    peer.close()
    wall.until(lambda: not wall.uplink("stream"))
    assert "internal error" not in caplog.text
    assert "connection dropped" in caplog.text


@pytest.mark.hostile
def test_super_frames_for_peers_share_the_rounds(wall, path):
    """They are cut as the rounds allow, and none overtakes another."""
    peers = [Peer(path) for _ in range(8)]
    wall.until(lambda: len(wall.uplink("stream")) == 8)
    frames = [EthPacket(payload=bytes((at,)) * 20_000, checked=False).frame() for at in range(8)]
    budget = wall.loop.budget
    budget.begin()
    for data in frames:
        wall.host.send(EVERYONE + data[6:], gso_size=20, checked=True)
    assert budget.steps <= budget.limit + 2 * 1000
    assert budget.is_waiting
    wall.until(lambda: not budget.is_waiting)
    expected = b"".join(data[54:] for data in frames)
    for peer in peers:
        assert b"".join(data[54:74] for data in peer.frames()) == expected
        peer.close()
