"""Many requests before the first reply, and messages that arrive in pieces."""

import contextlib
import os

import pytest
from helpers.device.fake_function import FakeFunction

from emu.server.vfio.protocol import (
    DEVICE_INFO,
    DMA_MAP,
    HEADER,
    IRQ_SET,
    MAX_DATA_XFER_SIZE,
    REGION_ACCESS,
    Irq,
    IrqSetFlag,
    MessageFlag,
    VfioCommand,
)


def message(msg_id, cmd, payload=b"", flags=0):
    return HEADER.pack(msg_id, cmd, HEADER.size + len(payload), flags, 0) + payload


def test_replies_come_in_the_order_of_the_requests(served, client):
    for number in range(50):
        client.send_raw(
            message(number, VfioCommand.REGION_READ, REGION_ACCESS.pack(number, 0, 1))
            + message(number + 100, VfioCommand.DEVICE_GET_INFO, DEVICE_INFO.pack(16, 0, 0, 0))
        )
    ids = [client.receive().msg_id for _ in range(100)]
    assert ids == [at for number in range(50) for at in (number, number + 100)]


def test_message_ids_may_repeat(client):
    for _ in range(3):
        client.send_raw(message(7, VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4)))
    assert [client.receive().msg_id for _ in range(3)] == [7, 7, 7]


def test_descriptors_find_their_messages(served, client):
    """Maps with and without a descriptor, eventfds, and accesses, all sent at once."""
    rams = [served.ram(0x1000) for _ in range(3)]
    for ram, mark in zip(rams, b"abc"):
        ram.bytes[0] = mark
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    flags = IrqSetFlag.DATA_EVENTFD | IrqSetFlag.ACTION_TRIGGER

    def dma_map(number, fds):
        client.send(VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, 0, number << 12, 0x1000), fds)

    dma_map(0, [rams[0].fd])
    client.post(0, 0, b"1234")
    dma_map(1, [])
    client.send(VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4))
    dma_map(2, [rams[1].fd])
    dma_map(3, [rams[2].fd])
    payload = IRQ_SET.pack(20, flags, Irq.MSIX, 6, 1)
    client.send(VfioCommand.DEVICE_SET_IRQS, payload, [eventfd])
    client.send(VfioCommand.DEVICE_GET_INFO, DEVICE_INFO.pack(16, 0, 0, 0))
    assert [client.receive().errno for _ in range(7)] == [0] * 7
    found = [bytes(served.memory.read(number << 12, 1)) for number in (0, 2, 3)]
    assert found == [b"a", b"b", b"c"]
    served.interrupts.trigger(6)
    with contextlib.closing(os.fdopen(eventfd, "rb", buffering=0)):
        assert os.eventfd_read(eventfd) == 1


@pytest.mark.parametrize("cut", [1, 4, 15, 16, 17, 40])
def test_a_message_in_two_pieces(own, own_client, cut):
    ram = own.ram(0x1000)
    data = message(1, VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, 0, 0, 0x1000))
    own_client.send_raw(data[:cut], [ram.fd])
    own.step()
    assert len(own.memory) == 0
    own_client.send_raw(data[cut:])
    assert own_client.receive().errno == 0
    own.memory.write(0, b"mapped")
    assert ram.bytes[:6] == b"mapped"


def test_descriptors_with_the_first_piece_and_more_messages_behind(own, own_client):
    ram, other = own.ram(0x1000), own.ram(0x1000)
    first = message(1, VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, 0, 0, 0x1000))
    second = message(2, VfioCommand.DMA_MAP, DMA_MAP.pack(32, 3, 0, 0x1000, 0x1000))
    own_client.send_raw(message(0, VfioCommand.DEVICE_RESET) + first[:20], [ram.fd])
    own.step()
    own_client.send_raw(first[20:])
    own_client.send_raw(second, [other.fd])
    own_client.send_raw(message(3, VfioCommand.DEVICE_RESET))
    assert [own_client.receive().msg_id for _ in range(4)] == [0, 1, 2, 3]
    own.memory.write(0xFFE, b"seam")
    assert (ram.bytes[-2:], other.bytes[:2]) == (b"se", b"am")


def test_byte_by_byte(own, own_client):
    data = message(1, VfioCommand.REGION_WRITE, REGION_ACCESS.pack(8, 0, 4) + b"1234")
    for byte in data + message(2, VfioCommand.REGION_READ, REGION_ACCESS.pack(8, 0, 4)):
        own_client.send_raw(bytes([byte]))
        own.step()
    assert own_client.receive().msg_id == 1
    assert own_client.receive().payload[-4:] == b"1234"


def send_slowly(served, client, data):
    """All of it, while the server receives what the socket has no space for."""
    client.sock.setblocking(False)
    at = 0
    while at < len(data):
        with contextlib.suppress(BlockingIOError):
            at += client.sock.send(data[at:])
        served.step()
    client.sock.setblocking(True)


@pytest.fixture
def roomy(serve):
    return serve("vfio-user", function=FakeFunction((2 * MAX_DATA_XFER_SIZE, 0, 0, 0, 0, 0)))


def long_write(size):
    payload = (bytes(range(256)) * (MAX_DATA_XFER_SIZE // 256))[:size]
    body = REGION_ACCESS.pack(16, 0, size) + payload
    return payload, message(1, VfioCommand.REGION_WRITE, body, MessageFlag.NO_REPLY)


def test_the_longest_message(roomy):
    client = roomy.client()
    payload, data = long_write(MAX_DATA_XFER_SIZE)
    send_slowly(roomy, client, data)
    client.device_info()
    assert roomy.function.accesses == [("bar_write", 0, 16, payload)]


@pytest.mark.hostile
@pytest.mark.parametrize("space", [HEADER.size, HEADER.size + 8, HEADER.size + 15])
def test_a_header_at_the_end_of_the_buffer(roomy, space):
    """Behind a message that leaves only so much of the longest one's space for the next."""
    client = roomy.client()
    payload, data = long_write(MAX_DATA_XFER_SIZE - space)
    send_slowly(roomy, client, data + message(7, VfioCommand.DEVICE_RESET) * 2)
    assert [client.receive().msg_id for _ in range(2)] == [7, 7]
    assert roomy.function.accesses == [("bar_write", 0, 16, payload)]
    assert roomy.function.resets == 2
