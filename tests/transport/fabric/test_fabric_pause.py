"""Senders that can wait while a connection of a fabric is full."""

import socket

import pytest

from emu.driver.world.clock import HandClock
from emu.server.net.fabric.connection import PAUSE_BYTES, FabricConnection
from emu.server.net.fabric.protocol import HEADER, FrameKind


class Owner:
    def watch(self, connection, events):
        pass

    def closed(self, connection, why):
        pass


def test_who_waits_when_the_connection_ends_does_not_wait_for_ever():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = FabricConnection(ours, Owner(), HandClock(), "peer")
    asked = []

    def again():
        asked.append(connection.is_pausing)
        if connection.is_pausing:
            connection.when_ready(again)

    with theirs:
        while not connection.is_pausing:
            connection.send(FrameKind.FRAME, bytes(PAUSE_BYTES // 4))
        connection.when_ready(again)
        connection.abandon()
    assert asked == [False]


def test_what_functions_send_in_their_turns_is_written_behind_these():
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    clock = HandClock()
    connection = FabricConnection(ours, Owner(), clock, "peer")
    with theirs:
        for _ in range(3):
            connection.send(FrameKind.PACKET, bytes(64))
        with pytest.raises(BlockingIOError):
            theirs.recv(1 << 16)
        clock.budget.end_polls()
        assert len(theirs.recv(1 << 16)) == 3 * (HEADER.size + 64)
        clock.budget.end_polls()
        with pytest.raises(BlockingIOError):
            theirs.recv(1 << 16)
        connection.abandon()


@pytest.mark.parametrize("taken", [0, 1, 100_000])
def test_a_train_that_the_socket_does_not_take_whole_follows_later(taken):
    """In order: what is sent behind it does not overtake what is left of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    pieces = [bytes((number,)) * 50_000 for number in range(4)]
    sendmsg = ours.sendmsg

    class Socket:
        """Takes so much of the first call; to another host, with which no memory is shared."""

        family = socket.AF_INET
        left = taken

        def sendmsg(self, buffers):
            if self.left is None:
                return sendmsg(buffers)
            most, self.left = self.left, None
            if not most:
                raise BlockingIOError
            return sendmsg([b"".join(buffers)[:most]])

        def fileno(self):
            return ours.fileno()

        def close(self):
            ours.close()

    connection = FabricConnection(Socket(), Owner(), HandClock(), "peer")
    connection.send_train(FrameKind.TRAIN, pieces)
    connection.send(FrameKind.PACKET, b"last")
    with theirs:
        whole = HEADER.pack(200_000, FrameKind.TRAIN) + b"".join(pieces)
        whole += HEADER.pack(4, FrameKind.PACKET) + b"last"
        got = b""
        while len(got) < len(whole):
            connection.on_writable()
            got += theirs.recv(1 << 16)
        assert got == whole
        connection.abandon()
