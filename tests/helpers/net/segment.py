"""A segment with uplinks on a loop that the test steps, and a host of ours at one of its ports."""

from __future__ import annotations

import socket
import threading
import time
from struct import pack, unpack_from

from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse as parse_headers
from emu.driver.ethernet.frames import checksum
from emu.server.net.eth.port import SegmentPort, padded
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.spec import parse
from emu.server.vfio.loop import Loop

OURS, THEIRS = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"
EVERYONE = b"\xff" * 6
SYN, PSH, ACK = 0x02, 0x08, 0x10
SECONDS = 20
STEP_NS = 5_000_000


class Host(SegmentPort):
    """A port of the segment, in the test's hand."""

    def __init__(self, wall, segment=0):
        super().__init__("host")
        self.got = []
        self._switch = wall.segments.segment(segment)
        self._switch.add(self)

    def deliver(self, frame):
        self.sent += 1
        self.got.append(frame)

    def send(self, data, **rest):
        self._switch.forward(self, Frame(padded(data), **rest))


class Wall:
    """The segments of a process, with these uplinks."""

    def __init__(self, *uplinks):
        self.loop = Loop()
        self.segments = Segments(self.loop)
        self.segments.open([parse(uplink) for uplink in uplinks])
        self.host = Host(self)

    def until(self, condition):
        """Step until it holds."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, "it does not happen"
            self.loop.step(STEP_NS)

    def settle(self):
        """Step until nothing is left to do."""
        for _ in range(20):
            self.loop.step(0)

    def answer(self, matches):
        """Step until the host gets such a frame; returns the first."""
        found = []

        def look():
            found.extend(frame.data for frame in self.host.got if matches(frame.data))
            self.host.got.clear()
            return found

        self.until(look)
        return found[0]

    def uplink(self, name):
        """The ports whose name begins so."""
        ports = self.segments.segment(0).ports
        return [port for port in ports if port.name.startswith(name)]

    def close(self):
        self.segments.close()
        self.loop.close()


class Peer:
    """What QEMU's stream netdev is: frames behind their lengths, on a Unix socket."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(path))
        self.sock.setblocking(False)
        self._data = b""

    def send(self, *frames):
        self.sock.sendall(b"".join(pack(">I", len(data)) + data for data in frames))

    def frames(self):
        """What has arrived since last time."""
        while True:
            try:
                data = self.sock.recv(1 << 20)
            except BlockingIOError:
                break
            if not data:
                break
            self._data += data
        found = []
        while len(self._data) >= 4:
            (length,) = unpack_from(">I", self._data)
            if len(self._data) < 4 + length:
                break
            found.append(self._data[4 : 4 + length])
            self._data = self._data[4 + length :]
        return found

    def close(self):
        self.sock.close()


class Sink:
    """A server on an address of this host: takes so many bytes, then says a few."""

    def __init__(self, address, size):
        self.wanted = (bytes(range(256)) * (size // 256 + 1))[:size]
        self.got = bytearray()
        self._server = socket.create_server((address, 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._thread.join(SECONDS)
        self._server.close()

    def _serve(self):
        client, _ = self._server.accept()
        with client:
            while len(self.got) < len(self.wanted) and (data := client.recv(1 << 16)):
                self.got.extend(data)
            client.sendall(b"all of it")


class TcpByHand:
    """One TCP connection over IPv4, as far as a test needs it; nothing is lost or late."""

    def __init__(self, wall, ours, theirs, mac):
        self.wall, self.ours, self.theirs, self.mac = wall, ours, theirs, mac

    def _send(self, flags, payload=b"", options=b"", **rest):
        segment = tcp(self._ports, self._sequence, self._acknowledged, flags, payload, options)
        packet = ipv4(self.ours, self.theirs, 6, segment)
        self.wall.host.send(ethernet(self.mac, OURS, 0x0800, packet), checked=True, **rest)

    def _segment(self, matches=lambda flags, payload: True):
        """The next segment that matches: sequence, flags, payload."""

        def is_ours(data):
            headers = parse_headers(data)
            return headers.protocol == 6 and matches(data[headers.l4 + 13], payload_of(data))

        data = self.wall.answer(is_ours)
        at = parse_headers(data).l4
        sequence, acknowledged, _, flags = unpack_from(">IIBB", data, at + 4)
        return sequence, acknowledged, flags, payload_of(data)

    def connect(self, port):
        self._ports, self._sequence, self._acknowledged = (40_000, port), 1000, 0
        self._send(SYN, options=bytes.fromhex("020405b4"))
        sequence, acknowledged, _, _ = self._segment(lambda flags, _: flags == SYN | ACK)
        assert acknowledged == 1001
        self._sequence, self._acknowledged = 1001, sequence + 1
        self._send(ACK)

    def upload(self, payload, **rest):
        self._send(PSH | ACK, payload, **rest)
        self._sequence += len(payload)

    def download(self):
        """What the other side says next."""
        return self._segment(lambda _, payload: payload)[3]


def payload_of(data):
    headers = parse_headers(data)
    return data[headers.l4 + (data[headers.l4 + 12] >> 4) * 4 : headers.end]


def ethernet(to, source, ethertype, payload=b""):
    return to + source + pack(">H", ethertype) + payload


def ipv4(source, to, protocol, payload):
    head = pack(">BBHHHBB", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol)
    return head + pack(">H", checksum(head + b"\0\0" + source + to)) + source + to + payload


def udp(source, to, payload):
    return pack(">HHHH", source, to, 8 + len(payload), 0) + payload


def tcp(ports, sequence, acknowledged, flags, payload=b"", options=b""):
    offset = (20 + len(options)) // 4 << 4
    head = pack(">HHIIBBHHH", *ports, sequence, acknowledged, offset, flags, 0xFFFF, 0, 0)
    return head + options + payload


def dhcp_discover(mac):
    """A BOOTP request with the least of options: message type and end (RFC 2131)."""
    fields = pack(">BBBBIHH16x", 1, 1, 6, 0, 0x1234, 0, 0x8000)
    options = bytes.fromhex("63825363 350101 3704 01 03 06 1a ff")
    request = (fields + mac.ljust(16, b"\0") + bytes(192) + options).ljust(300, b"\0")
    return ethernet(EVERYONE, mac, 0x0800, ipv4(bytes(4), EVERYONE[:4], 17, udp(68, 67, request)))


def dhcp_options(frame):
    """The options of a DHCP answer, by number, and the address that it offers."""
    at, found = 14 + 20 + 8 + 236 + 4, {}
    while frame[at] != 255:
        size = frame[at + 1]
        found[frame[at]] = frame[at + 2 : at + 2 + size]
        at += 2 + size
    return found, frame[14 + 20 + 8 + 16 :][:4]


def arp_request(mac, address, wanted):
    body = bytes.fromhex("0001 0800 0604 0001") + mac + address + bytes(6) + wanted
    return ethernet(EVERYONE, mac, 0x0806, body)
