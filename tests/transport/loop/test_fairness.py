"""Clients that take more than their share: nobody waits for one, and each has a turn at a time."""

import contextlib
import select
import socket

import pytest

from emu.server.vfio.loop import Loop
from emu.server.vfio.protocol import (
    HEADER,
    REGION_ACCESS,
    REGION_REQUEST,
    IrqSetFlag,
    MessageFlag,
    RegionIndex,
    VfioCommand,
)

pytestmark = pytest.mark.hostile

KIB = 1 << 10


def message(cmd, payload=b"", flags=0, msg_id=1):
    return HEADER.pack(msg_id, cmd, HEADER.size + len(payload), flags, 0) + payload


def read(count, offset=0, region=0, msg_id=1):
    return message(
        VfioCommand.REGION_READ, REGION_ACCESS.pack(offset, region, count), msg_id=msg_id
    )


def post(data, offset=0, region=0):
    payload = REGION_ACCESS.pack(offset, region, len(data)) + data
    return message(VfioCommand.REGION_WRITE, payload, MessageFlag.NO_REPLY)


@pytest.fixture
def deaf(own):
    """A client that has asked for more than it has read."""
    own.function.bars[0][:4] = b"deaf"
    client = own.client()
    client.send_raw(b"".join(read(64 * KIB, msg_id=number) for number in range(100)))
    for _ in range(300):
        own.step()
    assert own.transport.events == select.POLLOUT
    return client


class TestDeafClients:
    def test_replies_wait_until_it_reads(self, own, deaf):
        """Nothing is lost, and nothing is done for it meanwhile that would have to be kept."""
        done = len(own.function.accesses)
        assert done < 100
        for _ in range(100):
            own.step()
        assert len(own.function.accesses) == done
        for number in range(100):
            reply = deaf.receive()
            assert reply.msg_id == number
            assert len(reply.payload) == REGION_ACCESS.size + 64 * KIB
        assert own.transport.events == select.POLLIN
        assert deaf.read(0, 0, 4) == b"deaf"

    def test_another_function_is_served(self, own, deaf, serve, tmp_path):
        """Without a wait, or the steps of this test would take seconds each."""
        other = serve("vfio-user", path=tmp_path / "other.sock")
        loop = Loop()
        loop.add_transport(own.transport)
        loop.add_transport(other.transport)
        client = other.client()
        client._step = lambda: loop.step(None)
        for _ in range(100):
            assert client.read(0, 0, 4) == bytes(4)
        loop.remove_transport(own.transport)
        loop.remove_transport(other.transport)
        loop.close()

    @pytest.mark.parametrize("alone", [True, False])
    def test_the_loop_sleeps_meanwhile(self, own, deaf, alone, serve, tmp_path):
        """It goes round for its timers alone, and once more when the client reads."""
        loop = Loop()
        loop.add_transport(own.transport)
        if not alone:
            loop.add_transport(serve("vfio-user", path=tmp_path / "other.sock").transport)
        before = own.function.polls
        for delay in (300_000, 30_000_000):
            loop.call_later(delay, loop.wake)
            while loop.next_ns() is not None:
                loop.step(None)
        assert own.function.polls <= before + 12
        done = len(own.function.accesses)
        while select.select([deaf.sock], [], [], 0)[0]:
            deaf.sock.recv(1 << 20)
        loop.step(None)
        assert len(own.function.accesses) > done
        loop.remove_transport(own.transport)
        loop.close()

    def test_it_leaves(self, own, deaf):
        deaf.close()
        own.settle()
        assert own.function.resets == 1
        own.client().device_info()

    def test_it_is_the_last_one(self, own, deaf):
        own.transport.close()
        assert own.function.resets == 1

    def test_refusals_have_to_be_read_as_well(self, own):
        client = own.client()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        client.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100_000):
                client.send_raw(message(99) * 100)
                own.step()
        assert len(own.transport._client.unsent) < 64 * KIB
        assert own.transport.events == select.POLLOUT


class TestTurns:
    """Requests by the ten thousand arrive in one receive call."""

    def flood(self, client, data):
        """Fill the socket with whole messages; how many there are."""
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        client.sock.setblocking(False)
        sent = 0
        try:
            while True:
                assert client.sock.send(data) == len(data)
                sent += 1
        except BlockingIOError:
            client.sock.setblocking(True)
        return sent

    @pytest.mark.parametrize(
        ("data", "most"),
        [
            (post(b"12345678"), 500),
            (post(b"1234", region=RegionIndex.CONFIG), 100),
            (message(VfioCommand.DEVICE_RESET, flags=MessageFlag.NO_REPLY), 100),
            (message(VfioCommand.DMA_UNMAP, bytes(24), MessageFlag.NO_REPLY), 100),
            (message(99, flags=MessageFlag.NO_REPLY), 100),
        ],
        ids=["doorbells", "configuration", "resets", "unmaps", "unknown"],
    )
    def test_a_flood_is_done_turn_by_turn(self, own, data, most, monkeypatch):
        client = own.client()
        sent = self.flood(client, data)
        done = []
        requests, function = own.transport._requests, own.function
        handle = requests.handle
        monkeypatch.setattr(requests, "handle", lambda *args: done.append(1) or handle(*args))
        monkeypatch.setattr(function, "bar_write", lambda *args: done.append(1))
        turns = 0
        while len(done) < sent:
            before = len(done)
            own.step()
            assert len(done) - before <= most
            turns += 1
        assert turns >= sent // most

    def test_work_is_done_between_the_turns(self, served, loop):
        client = served.client()
        sent = self.flood(client, post(b"12345678"))
        runs = served.function.polls
        while len(served.function.accesses) < sent:
            loop.step(None)
        assert served.function.polls - runs >= sent // 500

    def test_large_reads_count_by_their_bytes(self, own):
        client = own.client()
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        client.send_raw(read(8 * KIB) * 20)
        own.step()
        assert len(own.function.accesses) <= 3

    def test_descriptors_stay_with_their_messages(self, own):
        """A message that has to wait for its turn has its descriptors when that comes."""
        client = own.client()
        eventfd = client.enable_vector(0)
        irqs = message(
            VfioCommand.DEVICE_SET_IRQS,
            b"".join(
                value.to_bytes(4, "little")
                for value in (20, IrqSetFlag.DATA_EVENTFD | IrqSetFlag.ACTION_TRIGGER, 2, 1, 1)
            ),
        )
        sent = self.flood(client, post(b"12345678"))
        for _ in range(sent // 400 // 2):
            own.step()
        while True:
            try:
                client.sock.setblocking(False)
                client.send_raw(irqs, [eventfd])
                break
            except BlockingIOError:
                own.step()
        client.sock.setblocking(True)
        client.send_raw(post(b"lastlast") * 1000)
        assert client.receive().errno == 0
        own.interrupts.trigger(1)
        own.function.accesses.clear()
        assert client.read(0, 0, 8) == b"lastlast"

    def test_a_message_that_ends_in_the_next_receive_call(self, own):
        client = own.client()
        whole = post(b"1234567") * 3000
        cut = len(whole) - REGION_REQUEST.size // 2
        client.send_raw(whole[:cut])
        for _ in range(20):
            own.step()
        assert len(own.function.accesses) == 2999
        client.send_raw(whole[cut:] + read(4))
        assert client.receive().payload[-4:] == b"1234"
        assert len(own.function.accesses) == 3001
