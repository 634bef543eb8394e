"""Senders that can wait while a connection of a fabric is full."""

import socket

from emu.driver.world.clock import HandClock
from emu.server.net.fabric.connection import PAUSE_BYTES, FabricConnection
from emu.server.net.fabric.protocol import FrameKind


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
            connection.when_room(again)

    with theirs:
        while not connection.is_pausing:
            connection.send(FrameKind.FRAME, bytes(PAUSE_BYTES // 4))
        connection.when_room(again)
        connection.abandon()
    assert asked == [False]
