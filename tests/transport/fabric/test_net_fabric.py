"""Ethernet segments across the processes of a fabric, over real sockets."""

import contextlib
import socket

import pytest
from helpers.net.segment import EVERYONE, Host, ethernet
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.roce import trains as roce_trains
from emu.device.port.eth.roce.framing import Framer, RoceHeaders
from emu.device.port.eth.roce.reading import network_header, parse
from emu.device.port.packet import OPS
from emu.device.port.packet import Packet as RocePacket
from emu.device.rounds.sizes import PACKETS_PER_CONNECTION
from emu.driver.ethernet.frames import EthPacket
from emu.driver.nodes.roce import ipv4
from emu.driver.transport.raw_peer import RawPeer
from emu.server.net.eth import uplinks
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.uplinks import Uplinks
from emu.server.net.fabric import protocol
from emu.server.net.fabric.connection import PAUSE_BYTES
from emu.server.net.fabric.errors import FabricProtocolError
from emu.server.net.fabric.protocol import FrameKind, Identity
from emu.server.net.ib.sockets import SocketFabric
from emu.server.vfio.loop import Loop
from layouts.wire.bth import PacketKind, Service

A, B, C = (bytes((2, 0, 0, 0, 0, number)) for number in (1, 2, 3))
ETHERNET = Identity(is_ethernet=True)


class Process:
    """One process with Ethernet ports, and a host of ours on its segment."""

    def __init__(self, lab, wanted):
        self.segments = Segments(lab.loop)
        self.host = Host(self)
        self.wire = SocketFabric(lab.name, lab.loop, wanted, ethernet=Uplinks(self.segments))
        try:
            self.identities = self.wire.join()
        except BaseException:
            self.wire.close()
            raise

    def uplinks(self, number=0):
        return [port for port in self.segments.segment(number).ports if port.is_fabric]

    def about(self):
        return self.segments.about()


class Lab:
    """Processes on one loop; the first one is the hub."""

    def __init__(self, name):
        self.name = name
        self.loop = Loop()
        self.processes = []
        self.cleanup = contextlib.ExitStack()

    def join(self, *wanted):
        process = Process(self, wanted or [ETHERNET])
        self.processes.append(process)
        return process

    def leave(self, process):
        self.processes.remove(process)
        process.wire.close()

    def step(self):
        self.loop.step(5_000_000)

    def settle(self):
        for _ in range(10):
            self.loop.step(1_000_000)

    def until(self, condition):
        for _ in range(4000):
            if found := condition():
                return found
            self.step()
        raise AssertionError("the condition does not become true")

    def send(self, process, data, **rest):
        """Send a frame; returns which hosts it has reached."""
        for one in self.processes:
            one.host.got.clear()
        process.host.send(data, **rest)
        self.settle()
        return [self.processes.index(one) for one in self.processes for _ in one.host.got]

    def close(self):
        for process in [*self.processes]:
            self.leave(process)
        self.cleanup.close()
        self.loop.close()


@pytest.fixture(params=["unix", "tcp"])
def name(request, tmp_path):
    if request.param == "unix":
        return f"unix:{tmp_path}/fabric"
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"tcp:127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture
def lab(name):
    lab = Lab(name)
    yield lab
    lab.close()


@pytest.fixture
def unix(tmp_path):
    lab = Lab(f"unix:{tmp_path}/fabric")
    yield lab
    lab.close()


def test_the_hub_learns_who_is_where(lab):
    _hub, one, two = lab.join(), lab.join(), lab.join()
    lab.settle()
    assert lab.send(one, ethernet(EVERYONE, A, 0x88B5)) == [0, 2]
    assert lab.send(two, ethernet(A, B, 0x88B5)) == [1]
    assert lab.send(one, ethernet(B, A, 0x88B5, bytes(5000))) == [2]
    (uplink,) = one.uplinks()
    assert (uplink.sent, uplink.received) == (2, 1)


def test_frames_keep_what_is_known_of_them(lab):
    hub, one = lab.join(), lab.join()
    lab.settle()
    data = EthPacket(payload=bytes(50_000), checked=False).frame()
    assert lab.send(one, data, gso_size=1448, checked=True) == [0]
    assert hub.host.got == [Frame(data, 1448, True)]
    lab.send(one, data, checked=True, filled=True)
    assert hub.host.got == [Frame(data, 0, True, True)]


def test_super_frames_wait_in_the_socket_for_later_rounds(unix):
    """Each is as much work as its packets, and a function takes no more of them in a round."""
    hub, one = unix.join(), unix.join()
    unix.settle()
    hub.host.got.clear()
    data = EthPacket(payload=bytes(30_000), checked=False).frame()
    for _ in range(8):
        one.host.send(data, gso_size=2 * len(data) // PACKETS_PER_CONNECTION, checked=True)
    seen = []
    while sum(seen) < 8:
        unix.loop.step(5_000_000)
        seen.append(len(hub.host.got))
        hub.host.got.clear()
        assert len(seen) < 100
    assert max(seen) == 2
    assert len(list(filter(None, seen))) == 4


def test_segments_do_not_meet(lab):
    hub, one = lab.join(), lab.join()
    other = Host(one, 7)
    other.send(ethernet(EVERYONE, A, 0x88B5))
    lab.settle()
    assert hub.host.got == []
    heard = Host(hub, 7)
    other.send(ethernet(EVERYONE, A, 0x88B5))
    lab.settle()
    assert len(heard.got) == 1
    assert hub.host.got == []


def test_a_hub_without_ethernet_carries_it_all_the_same(lab):
    hub = lab.join(Identity())
    one, two = lab.join(), lab.join(Identity(), ETHERNET)
    lab.settle()
    assert lab.send(one, ethernet(EVERYONE, A, 0x88B5)) == [0, 2]
    assert lab.send(two, ethernet(A, B, 0x88B5)) == [1]
    assert [one.lid for one in two.identities] == [2, 0]
    assert [identity.is_ethernet for identity in two.identities] == [False, True]
    assert len(hub.uplinks()) == 2


def test_a_member_without_ethernet_gets_no_frames(lab):
    _hub, _ib, one = lab.join(), lab.join(Identity()), lab.join()
    lab.settle()
    assert lab.send(one, ethernet(EVERYONE, A, 0x88B5)) == [0]


def test_what_was_behind_a_process_that_has_gone_is_forgotten(lab):
    hub, one, two = lab.join(), lab.join(), lab.join()
    lab.settle()
    lab.send(two, ethernet(EVERYONE, B, 0x88B5))
    lab.leave(two)
    lab.until(lambda: len(hub.uplinks()) == 1)
    assert lab.send(one, ethernet(B, A, 0x88B5)) == [0]  # flooded


def test_when_the_hub_goes_frames_flow_again_and_guids_stay(lab):
    hub, one, two = lab.join(), lab.join(), lab.join()
    lab.settle()
    guids = [one.identities[0].guid, two.identities[0].guid]
    lab.leave(hub)
    lab.until(lambda: one.wire.is_hub is not two.wire.is_hub and one.uplinks() and two.uplinks())
    assert lab.send(one, ethernet(EVERYONE, A, 0x88B5)) == [1]
    new = lab.join()
    assert new.identities[0].guid not in guids


def test_a_newcomer_is_not_given_the_guid_of_one_who_is_coming_back(unix):
    hub, one, two = unix.join(), unix.join(), unix.join()
    unix.until(lambda: len(one.wire.election.role.others()) == 2)
    assert {each.guid for each in one.wire.election.role.others()} == {
        hub.identities[0].guid,
        two.identities[0].guid,
    }


def test_other_versions_are_refused_with_a_reason(unix):
    unix.join()
    peer = RawPeer.connected(unix)
    peer.say(FrameKind.HELLO, protocol.MAGIC + b"\0\1\0\1" + bytes(10))
    kind, body = peer.hear()
    assert kind is FrameKind.REFUSED
    assert b"version 1 of the fabric's protocol, not 5" in body


@pytest.mark.hostile
def test_a_member_that_does_not_read_costs_a_bounded_queue(unix):
    hub, one = unix.join(), unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    unix.settle()
    for _ in range(4 * PAUSE_BYTES // 1500 + 500):  # also what the socket itself takes
        hub.host.send(ethernet(C, A, 0x88B5, bytes(1486)))
    ports = {port.name: port for port in hub.uplinks()}
    assert any(port.dropped["queue full"] > 400 for port in ports.values())
    peer.close()
    unix.until(lambda: len(hub.uplinks()) == 1)
    for _ in range(5):
        unix.settle()
    assert len(one.host.got) > 100
    assert unix.send(hub, ethernet(EVERYONE, A, 0x88B5)) == [1]


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "an Ethernet frame is cut off"),
        (b"\0\4\0\0" + bytes(60), "flags 0x4"),
        (bytes(5 + MAX_BYTES), "frame of kind 7"),
    ],
)
def test_what_no_process_of_ours_sends_ends_the_connection(unix, body, why, caplog):
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    peer.say(FrameKind.FRAME, body)
    assert peer.is_dropped()
    assert why in caplog.text
    assert hub.uplinks() == []


@pytest.mark.hostile
@pytest.mark.parametrize("kind", [FrameKind.FRAME, FrameKind.FRAME_TRAIN])
def test_frames_from_a_member_without_an_ethernet_port(unix, caplog, kind):
    unix.join()
    peer = RawPeer.member(unix)
    peer.say(kind, bytes(64))
    assert peer.is_dropped()
    assert f"{kind.name} from a member" in caplog.text


def train(to, source, count):
    """A train of RoCE packets from one MAC address to another."""
    headers = RoceHeaders(to, source, ipv4(1), ipv4(2))
    packet = RocePacket().of(OPS[Service.RC, PacketKind.WRITE, False, False, None], 0x40, 0x20)
    front = Framer(headers, 0xFFFF).frame(packet, [bytes(1024)], 1024)
    return front[:-4] + b"".join(bytes((number,)) * 1024 for number in range(1, count)) + front[-4:]


@pytest.mark.hostile
def test_a_train_for_who_takes_frames_is_cut(unix):
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    hub.host.send(ethernet(EVERYONE, A, 0x88B5))
    peer.say(FrameKind.FRAME_TRAIN, protocol.segment(0) + train(A, B, 5))
    unix.until(lambda: len(hub.host.got) == 5)
    packets = [parse(frame.data, network_header(frame.data)) for frame in hub.host.got]
    assert [packet.psn for packet in packets] == [*range(0x20, 0x25)]
    assert [packet.payload[0] for packet in packets] == [*range(5)]


@pytest.mark.hostile
@pytest.mark.parametrize("at", [0, 12, 17, 39, 50])
def test_headers_of_a_train_are_those_that_were_read(unix, monkeypatch, at):
    """Addresses, type, lengths and numbers may change in memory that the other process writes."""

    def change(frame):
        read = roce_trains.parse_train(frame)
        frame[at] ^= 0xFF
        return read

    monkeypatch.setattr(uplinks, "parse_train", change)
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    hub.host.send(ethernet(EVERYONE, A, 0x88B5))
    peer.say(FrameKind.FRAME_TRAIN, protocol.segment(0) + train(A, B, 5))
    unix.until(lambda: len(hub.host.got) == 5)
    packets = [parse(frame.data, network_header(frame.data)) for frame in hub.host.got]
    assert [packet.psn for packet in packets] == [*range(0x20, 0x25)]
    assert {bytes(frame.data[:12]) for frame in hub.host.got} == {A + B}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("to", "work"), [(A, 40), (b"\x01" + A[1:], 40 * 2)], ids=["to one", "to all"]
)
def test_a_train_that_is_cut_counts_as_its_frames(unix, monkeypatch, to, work):
    """As what comes in frames does: else a round would have no bound."""
    told, received = [], Uplinks.received_train

    def counted(*arguments):
        told.append(received(*arguments))
        return told[-1]

    monkeypatch.setattr(Uplinks, "received_train", counted)
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    peer.say(FrameKind.FRAME_TRAIN, protocol.segment(0) + train(to, B, 40))
    unix.until(lambda: told)
    assert told == [work]
    assert len(hub.host.got) == 40


@pytest.mark.hostile
def test_what_is_no_train(unix, caplog):
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    good = train(A, B, 5)
    bad = [b"", bytes(5000), good[:-1], good + b"\0", good[:14] + bytes(20) + good[34:]]
    for body in bad:
        peer.say(FrameKind.FRAME_TRAIN, protocol.segment(0) + body)
    unix.settle()
    (uplink,) = hub.uplinks()
    assert uplink.dropped["malformed"] == len(bad)
    assert hub.host.got == []
    peer.say(FrameKind.FRAME_TRAIN, bytes(3))
    assert peer.is_dropped()
    assert "a train is cut off" in caplog.text


@pytest.mark.hostile
def test_what_a_guest_behind_a_member_may_send_is_dropped_and_counted(unix):
    hub = unix.join()
    peer = RawPeer.member(unix, ETHERNET)
    bad = [
        Frame(bytes(59)),
        Frame(bytes(5000), 1000, checked=True),
        Frame(EthPacket(payload=bytes(9000)).frame(), 1, checked=True),
        Frame(EthPacket(options=bytes(12), payload=b"").frame(), 1000, checked=True),
    ]
    for frame in bad:
        peer.say(FrameKind.FRAME, protocol.ethernet(0, frame))
    unix.settle()
    (uplink,) = hub.uplinks()
    assert uplink.dropped["malformed"] == len(bad)
    peer.say(FrameKind.FRAME, protocol.ethernet(0, Frame(ethernet(EVERYONE, A, 5).ljust(60))))
    unix.until(lambda: hub.host.got)


@pytest.mark.hostile
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([FrameKind.FRAME, FrameKind.FRAME_TRAIN, FrameKind.GUIDS]),
            st.binary(max_size=150),
        )
    )
)
def test_random_bodies(unix, said):
    if not unix.processes:
        unix.join()
    hub = unix.processes[0]
    peer = RawPeer.member(unix, ETHERNET)
    for kind, body in said:
        if not peer.send(protocol.frame(kind, body)):
            break
    peer.close()
    unix.until(lambda: not hub.uplinks())
    assert unix.send(hub, ethernet(EVERYONE, A, 0x88B5)) == []


@pytest.mark.hostile
def test_guids_that_are_cut_off():
    with pytest.raises(FabricProtocolError, match="cut off"):
        protocol.read_guids(memoryview(bytes(9)))
