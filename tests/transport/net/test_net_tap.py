"""``--net tap=NAME`` with the kernel's own stack behind it, where we may make a TAP device."""

import fcntl
import os
import socket
from struct import pack, unpack

import pytest
from helpers.net.segment import OURS, Sink, TcpByHand, Wall, arp_request, ethernet, ipv4, udp
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import FrameError, parse
from emu.driver.ethernet.frames import EthPacket
from emu.server.net.eth import tap
from emu.server.net.eth.tap import TapError, offloaded, received

KERNEL, GUEST = bytes((10, 213, 77, 1)), bytes((10, 213, 77, 2))
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFFLAGS, SIOCGIFHWADDR = 0x8916, 0x891C, 0x8914, 0x8927


def configure(name):
    """Give the device an address and bring it up; returns its MAC address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for request, address in ((SIOCSIFADDR, KERNEL), (SIOCSIFNETMASK, b"\xff\xff\xff\0")):
            body = pack("@H2x4s8x", socket.AF_INET, address)
            fcntl.ioctl(sock, request, pack("@16s16s", name.encode(), body))
        fcntl.ioctl(sock, SIOCSIFFLAGS, pack("@16sH14x", name.encode(), 0x41))
        found = fcntl.ioctl(sock, SIOCGIFHWADDR, pack("@16s16x", name.encode()))
    return unpack("@16s2x6s8x", found)[1]


@pytest.fixture
def name():
    return f"emu{os.getpid()}"


@pytest.fixture
def wall(name):
    try:
        wall = Wall(f"tap={name}")
    except TapError as error:
        pytest.skip(str(error))
    yield wall
    wall.close()


@pytest.fixture
def mac(wall, name):
    """The kernel's side, which knows our address."""
    try:
        mac = configure(name)
    except PermissionError as error:
        pytest.skip(str(error))
    wall.host.send(arp_request(OURS, GUEST, KERNEL))
    wall.answer(lambda data: data[12:14] == b"\x08\x06" and data[22:28] == mac)
    return mac


def test_datagrams_both_ways(wall, mac):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((socket.inet_ntoa(KERNEL), 0))
        sock.setblocking(False)
        port = sock.getsockname()[1]
        packet = ipv4(GUEST, KERNEL, 17, udp(7, port, b"from the guest"))
        wall.host.send(ethernet(mac, OURS, 0x0800, packet), checked=True)
        assert sock.recv(100) == b"from the guest"
        sock.sendto(b"to the guest", (socket.inet_ntoa(GUEST), 7))
        data = wall.answer(lambda data: b"to the guest" in data)
    assert verify(parse(data)).l4_ok


def test_a_wrong_checksum_is_refused_by_the_kernel(wall, mac):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((socket.inet_ntoa(KERNEL), 0))
        sock.setblocking(False)
        packet = ipv4(
            GUEST, KERNEL, 17, pack(">HHHH", 7, sock.getsockname()[1], 12, 0xBAD) + b"oops"
        )
        wall.host.send(ethernet(mac, OURS, 0x0800, packet))
        with pytest.raises(BlockingIOError):
            sock.recv(100)
        wall.host.send(ethernet(mac, OURS, 0x0800, packet), checked=True)
        assert sock.recv(100) == b"oops"


def test_tcp_with_super_frames(wall, mac):
    client = TcpByHand(wall, GUEST, KERNEL, mac)
    with Sink(socket.inet_ntoa(KERNEL), 60_000) as sink:
        client.connect(sink.port)
        client.upload(sink.wanted, gso_size=1460)
        assert client.download() == b"all of it"
    assert sink.got == sink.wanted
    (uplink,) = wall.uplink("tap")
    assert uplink.sent < 10  # the 60,000 bytes went in one piece


def test_a_round_is_charged_only_for_frames_that_were_taken(monkeypatch):
    class TwoRequests:
        """A segment with two receive requests."""

        def __init__(self):
            self.got = []

        def add(self, port):
            pass

        remove = add

        def credits(self):
            return 2 - len(self.got)

        def forward(self, source, frame):
            self.got.append(frame.data)

    class Watched:
        """Notes which ports are paused."""

        def __init__(self):
            self.paused = []

        def watch(self, port, events):
            pass

        def pause(self, port, delay_ns):
            self.paused.append(port)

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    monkeypatch.setattr(tap, "open_tap", lambda name: ours.detach())
    segment, poller = TwoRequests(), Watched()
    port = tap.Tap("tap7", segment, poller)
    with theirs:
        for number in range(3):
            theirs.send(bytes(12) + bytes((2, 0, 0, 0, 0, number)) * 10)
        assert port.take(64) == 2 == len(segment.got)
        assert not poller.paused
        assert port.take(64) == 0
        assert poller.paused == [port]
        segment.got.clear()
        assert port.take(64) == 1 == len(segment.got)
        port.close("")


def test_a_device_that_is_down_says_so_once(wall, name, caplog):
    for _ in range(3):
        wall.host.send(ethernet(b"\xff" * 6, OURS, 0x88B5))
    (uplink,) = wall.uplink("tap")
    assert uplink.dropped["refused"] == 3
    assert [line for line in caplog.messages if f"ip link set {name} up" in line] == caplog.messages


def test_a_device_in_use(wall, name):
    with pytest.raises(TapError, match="another process uses it"):
        Wall(f"tap={name}")


def test_without_permission(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    monkeypatch.setattr(tap, "DEVICE", "/dev/null")
    with pytest.raises(TapError, match="ip tuntap add tap7 mode tap user"):
        tap.open_tap("tap7")


def test_without_the_device(monkeypatch):
    monkeypatch.setattr(tap, "DEVICE", "/nonexistent/tun")
    with pytest.raises(TapError, match="/nonexistent/tun: No such file"):
        tap.open_tap("tap7")


# The virtio network header, as values.


def test_a_udp_super_frame_is_cut():
    pieces = offloaded(
        Frame(EthPacket(protocol=17, payload=bytes(3000)).frame(), 1000, checked=True)
    )
    assert len(pieces) == 3
    assert all(not any(header) and verify(parse(data)).l4_ok for header, data in pieces)


@pytest.mark.parametrize(("version", "gso_type"), [(4, 1), (6, 4)])
@pytest.mark.parametrize("cwr", [0, 0x80])
def test_a_tcp_super_frame_stays_whole(version, gso_type, cwr):
    size = 4 if version == 4 else 16
    packet = EthPacket(
        version=version, source=bytes(size), destination=bytes(size), flags=0x10 | cwr,
        payload=bytes(3000),
    )  # fmt: skip
    ((header, data),) = offloaded(Frame(packet.frame(), 1000, checked=True))
    l4 = packet.l4
    assert unpack("@BBHHHHH", header) == (1, gso_type | cwr, l4 + 20, 1000, l4, 16, 0)
    assert len(data) == len(packet.frame())


def test_what_the_kernel_says_of_a_frame():
    header = pack("@BBHHHHH", 1, 1, 54, 1448, 34, 16, 0)
    frame = received(header + bytes(100))
    assert (len(frame.data), frame.gso_size, frame.checked) == (100, 1448, True)
    frame = received(b"\2" + bytes(11) + bytes(60))
    assert (frame.checked, frame.filled) == (True, True)
    frame = received(bytes(12) + bytes(20))
    assert (len(frame.data), frame.gso_size, frame.checked) == (60, 0, False)


@pytest.mark.hostile
@given(st.binary(min_size=14, max_size=200), st.integers(0, 0xFFFF), st.booleans())
def test_random_frames_are_offloaded_or_refused(data, size, checked):
    try:
        pieces = offloaded(Frame(data, size, checked))
    except FrameError:
        return
    assert sum(len(piece) for _, piece in pieces) >= len(data)
