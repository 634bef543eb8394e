"""Trains in memory that the two processes of a connection share."""

import contextlib
import fcntl
import gc
import os
import random
import socket
from collections import deque

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.driver.world.clock import HandClock
from emu.server.net.fabric import protocol, shared
from emu.server.net.fabric.connection import LIFETIME_NS, FabricConnection
from emu.server.net.fabric.protocol import HEADER, MAX_BODY, FrameKind, Placed
from emu.server.net.fabric.shared import SIZE, Sharing

TRAIN, FRAME_TRAIN, PACKET = FrameKind.TRAIN, FrameKind.FRAME_TRAIN, FrameKind.PACKET
ALL = 1 << 20
SHRINK = fcntl.F_SEAL_SHRINK


class Owner:
    """Keeps what comes."""

    def __init__(self):
        self.got, self.why = [], None

    def watch(self, connection, events):
        pass

    def received(self, connection, kind, body):
        self.got.append((kind, bytes(body)))
        return 1

    def closed(self, connection, why):
        self.why = why


class End:
    """A connection with its owner and its clock."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock, self.owner, self.clock = sock, Owner(), HandClock()
        self.connection = FabricConnection(sock, self.owner, self.clock, "peer")

    def run(self):
        """Write what waits, and read all that has come."""
        self.clock.budget.end_polls()
        self.connection.on_writable()
        while self.connection.take(ALL):
            self.clock.budget.end_polls()


@pytest.fixture
def ends():
    pair = [End(sock) for sock in socket.socketpair()]
    yield pair
    for end in pair:
        end.connection.abandon()


def octets(size, seed=0):
    return random.Random(seed).randbytes(size)


def test_only_a_trains_place_takes_the_socket(ends):
    one, other = ends
    data = octets(100_000)
    assert one.connection.send_train(TRAIN, (data[:10], memoryview(data)[10:], b""))
    told = other.sock.recv(1 << 20, socket.MSG_PEEK)
    assert len(told) < 64
    other.run()
    assert other.owner.got == [(TRAIN, data)]


def test_frames_stay_in_order(ends):
    one, other = ends
    sent = []
    for number in range(20):
        kind = (PACKET, TRAIN, FRAME_TRAIN)[number % 3]
        sent.append((kind, octets(2000 + number, number)))
        if kind is PACKET:
            one.connection.send(*sent[-1])
        else:
            one.connection.send_train(kind, (sent[-1][1],))
    one.run()
    other.run()
    assert other.owner.got == sent


def test_memory_is_used_again_and_the_socket_takes_what_has_no_room(ends):
    one, other = ends
    placed = 0
    for number in range(100):
        sizes = [random.Random(number).randrange(1, 200_000) for _ in range(number % 17)]
        sent = [(TRAIN, octets(size, size)) for size in sizes]
        for kind, data in sent:
            one.connection.send_train(kind, (data,))
        while len(other.owner.got) < len(sent):
            before = len(other.owner.got)
            one.run()
            other.run()
            assert len(other.owner.got) > before or one.connection._queue
        assert other.owner.got == sent
        other.owner.got.clear()
        one.run()
        placed += sum(sizes)
    assert one.connection._sharing._out._written > 5 * SIZE
    assert placed > one.connection._sharing._out._written / 2


def test_both_directions_have_memory_of_their_own(ends):
    for _ in range(40):
        for one, other in (ends, ends[::-1]):
            data = octets(120_000)
            one.connection.send_train(TRAIN, (data,))
            other.run()
            assert other.owner.got.pop() == (TRAIN, data)


def test_who_does_not_read_loses_packets_but_no_memory(ends):
    one, other = ends
    data = octets(100_000)
    while not one.connection.is_pausing:
        one.connection.send_train(TRAIN, (data,))
    one.clock.advance(LIFETIME_NS)
    assert one.connection.is_congested
    for _ in range(10):
        one.connection.send_train(TRAIN, (data,))
    for _ in range(50):
        other.run()
        one.run()
    got = len(other.owner.got)
    assert got >= SIZE // len(data)
    for _ in range(2 * SIZE // len(data)):
        one.connection.send_train(TRAIN, (data,))
        other.run()
        one.run()
    assert len(other.owner.got) == got + 2 * SIZE // len(data)
    assert {body for _, body in other.owner.got} == {data}


def test_a_stuck_peer_that_reads_again_gets_packets_after_an_empty_queue(ends, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    one, other = ends
    with contextlib.suppress(BlockingIOError):
        while True:
            one.sock.send(bytes(HEADER.size))
    one.connection.send_train(TRAIN, (octets(100),))
    one.clock.advance(LIFETIME_NS)
    assert one.connection.is_congested
    with contextlib.suppress(BlockingIOError):
        while other.sock.recv(ALL):
            pass
    one.connection.on_writable()
    assert not one.connection.is_congested
    one.connection.send(PACKET, octets(64))
    one.run()
    other.run()
    assert other.owner.got == [(PACKET, octets(64))]


def test_without_files_in_memory_trains_take_the_socket(ends, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    caplog.set_level("INFO")
    one, other = ends
    for _ in range(3):
        one.connection.send_train(TRAIN, (octets(5000),))
    other.run()
    assert other.owner.got == [(TRAIN, octets(5000))] * 3
    assert caplog.text.count("no shared memory: Operation not permitted") == 1
    monkeypatch.undo()
    other.connection.send_train(TRAIN, (octets(6000),))
    one.run()
    assert one.owner.got == [(TRAIN, octets(6000))]
    assert other.connection._sharing.has_begun
    assert not one.connection._sharing.has_begun


def test_over_tcp_there_is_none():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = socket.create_connection(listener.getsockname())
        second, _ = listener.accept()
    one, other = End(first), End(second)
    one.connection.send_train(TRAIN, (octets(5000),))
    while not other.owner.got:
        other.run()
    assert other.owner.got == [(TRAIN, octets(5000))]
    assert not one.connection._sharing.has_begun
    for end in (one, other):
        end.connection.abandon()


class Liar:
    """A hostile process at the other end."""

    def __init__(self, sock):
        self.sock = sock

    def say(self, kind, body, *fds):
        socket.send_fds(self.sock, (protocol.frame(kind, body),), fds)

    def give(self, size=SIZE, *, actual=SIZE, seals=SHRINK):
        """Give a file in memory; returns its descriptor."""
        fd = os.memfd_create("lie", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, actual)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        self.say(FrameKind.MEMORY, protocol.memory(size), fd)
        os.close(fd)

    def place(self, kind, size, start):
        self.say(FrameKind.PLACED, protocol.placed(Placed(kind, size, start)))


@pytest.fixture
def attacked():
    ours, theirs = socket.socketpair()
    end = End(ours)
    yield end, Liar(theirs)
    end.connection.abandon()
    theirs.close()


def pipe(liar):
    """Give a pipe as memory."""
    ends = os.pipe()
    liar.say(FrameKind.MEMORY, protocol.memory(SIZE), ends[0])
    for fd in ends:
        os.close(fd)


def file(liar):
    """Give a file that can shrink at any time."""
    with open("/proc/self/exe", "rb") as file:
        liar.say(FrameKind.MEMORY, protocol.memory(SIZE), file.fileno())


def given_and(*placed):
    """Give memory, and say that something is placed."""

    def lie(liar):
        liar.give()
        for one in placed:
            liar.place(*one)

    return lie


LIES = {
    "no file": (
        lambda liar: liar.say(FrameKind.MEMORY, protocol.memory(SIZE)),
        "MEMORY without a descriptor",
    ),
    "a pipe": (pipe, "memory cannot be mapped"),
    "a file on a disk": (file, "memory cannot be mapped"),
    "not sealed": (lambda liar: liar.give(seals=0), "memory with seals 0x0"),
    "too small": (lambda liar: liar.give(actual=4096), "memory of 4096 bytes"),
    "another size": (lambda liar: liar.give(1 << 30), "said to be 1073741824"),
    "cut off": (lambda liar: liar.say(FrameKind.MEMORY, b"\0"), "1 bytes in place of 4"),
    "twice": (
        lambda liar: (liar.give(), liar.give()),
        "MEMORY without a descriptor, or a second MEMORY",
    ),
    "placed nowhere": (lambda liar: liar.place(TRAIN, 10, 0), "PLACED without MEMORY"),
    "beyond the end": (given_and((TRAIN, 11, SIZE - 10)), "11 bytes at"),
    "a lap ahead": (given_and((TRAIN, 10, SIZE)), f"10 bytes at {SIZE}, behind 0"),
    "back": (given_and((TRAIN, 10, 10), (TRAIN, 10, 10)), "10 bytes at 10, behind 20"),
    "too long": (given_and((TRAIN, MAX_BODY[TRAIN] + 1, 0)), "TRAIN of"),
    "a packet": (given_and((PACKET, 10, 0)), "PACKET of 10 bytes"),
    "itself": (given_and((FrameKind.PLACED, 10, 0)), "PLACED of 10 bytes"),
    "freed before any": (
        lambda liar: liar.say(FrameKind.FREED, protocol.freed(0)),
        "FREED without MEMORY",
    ),
}


@pytest.mark.hostile
@pytest.mark.parametrize("lie", LIES)
def test_lies_about_memory_end_the_connection(attacked, lie):
    end, liar = attacked
    tell, why = LIES[lie]
    tell(liar)
    end.run()
    assert why in end.owner.why
    assert end.connection.has_failed


@pytest.mark.hostile
@pytest.mark.parametrize("up_to", [4999, 5001, 1 << 60])
def test_memory_is_freed_as_far_as_it_was_written_and_not_back(attacked, up_to):
    end, liar = attacked
    end.connection.send_train(TRAIN, (octets(5000),))
    liar.say(FrameKind.FREED, protocol.freed(5000))
    end.run()
    assert end.owner.why is None
    liar.say(FrameKind.FREED, protocol.freed(up_to))
    end.run()
    assert end.owner.why == f"memory is free up to {up_to} of 5000"


def descriptors():
    """How many this process has."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.hostile
def test_descriptors_that_nobody_wants_are_closed(attacked):
    end, liar = attacked
    before = descriptors()
    null = os.open("/dev/null", os.O_RDONLY)
    for _ in range(5):
        liar.say(PACKET, b"", *[null] * 7)
        end.run()
    os.close(null)
    assert descriptors() == before + 1
    liar.give()
    liar.place(TRAIN, 10, 0)
    end.run()
    assert end.owner.got[-1] == (TRAIN, bytes(10))
    assert descriptors() == before + 1  # the mapping keeps one
    liar.say(PACKET, b"")
    null = os.open("/dev/null", os.O_RDONLY)
    liar.say(PACKET, b"", null)
    end.run()
    os.close(null)
    assert descriptors() == before + 1
    assert end.owner.why is None


@pytest.mark.hostile
def test_a_descriptor_does_not_outlive_the_connection(attacked):
    end, liar = attacked
    before = descriptors()
    null = os.open("/dev/null", os.O_RDONLY)
    liar.say(PACKET, b"", null)
    os.close(null)
    end.run()
    end.connection.abandon()
    assert descriptors() == before - 1  # its socket


frames = st.tuples(
    st.sampled_from([FrameKind.MEMORY, FrameKind.PLACED, FrameKind.FREED, TRAIN]),
    st.binary(max_size=20),
).map(lambda said: protocol.frame(*said))
places = st.builds(
    Placed,
    st.sampled_from([TRAIN, FRAME_TRAIN, PACKET, FrameKind.FREED]),
    st.integers(0, 1 << 19),
    st.integers(0, 1 << 22),
).map(lambda placed: protocol.frame(FrameKind.PLACED, protocol.placed(placed)))


@pytest.mark.hostile
@settings(max_examples=examples(100))
@given(st.lists(frames | places, max_size=12))
def test_noise(said):
    """Whatever is said, the connection goes on or ends with a reason."""
    ours, theirs = socket.socketpair()
    end, liar = End(ours), Liar(theirs)
    with theirs, contextlib.suppress(BrokenPipeError):
        liar.give()
        for data in said:
            theirs.send(data)
            end.run()
            assert end.connection.has_failed == (end.owner.why is not None)
    end.connection.abandon()


@given(st.lists(st.tuples(st.integers(1, SIZE // 4), st.booleans()), max_size=40))
def test_no_byte_that_is_still_needed_is_written_again(steps):
    """Against a list of the places that the reader has not freed."""
    out = shared.OutMemory(memoryview(bytearray(SIZE)))
    used = deque()
    for size, frees in steps:
        placed = out.place(TRAIN, (bytes(size),))
        if placed is not None:
            at = placed.start % SIZE
            assert at + size <= SIZE
            assert all(at + size <= start or at >= end for start, end, _ in used)
            used.append((at, at + size, placed.start + size))
        else:
            assert used
        if frees and used:
            out.freed(used.popleft()[2])
    while used:
        out.freed(used.popleft()[2])
    assert out.place(TRAIN, (bytes(SIZE // 2),)) is not None


def test_reading_asks_for_descriptors_until_memory_has_come():
    """A receive call with room for descriptors takes longer: none is made without need."""
    ours, theirs = socket.socketpair()
    sharing = Sharing(ours)
    asked = []

    class Socket:
        def recv_into(self, room):
            asked.append("data")
            return ours.recv_into(room)

        def recvmsg_into(self, *rest):
            asked.append("descriptors")
            return ours.recvmsg_into(*rest)

    room = memoryview(bytearray(100))
    liar = Liar(theirs)
    liar.give()
    with ours, theirs:
        assert sharing.receive(Socket(), room) == HEADER.size + 4
        sharing.take(FrameKind.MEMORY, room[HEADER.size : HEADER.size + 4])
        theirs.send(b"x")
        assert sharing.receive(Socket(), room) == 1
    assert asked == ["descriptors", "data"]
