"""Writes without a reply."""

import errno

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import (
    HEADER,
    REGION_ACCESS,
    MessageFlag,
    VfioCommand,
)


def test_posted_writes_arrive_in_order_before_the_next_reply(served, client):
    for number in range(100):
        client.post(0, 8 * number, number.to_bytes(8, "little"))
    assert client.read(0, 8 * 99, 8) == (99).to_bytes(8, "little")
    offsets = [access[2] for access in served.function.accesses[:-1]]
    assert offsets == [8 * number for number in range(100)]


def test_all_that_waits_in_the_socket_is_one_batch(own, own_client):
    """Accesses in their order, the reply in its place; what is not all there yet waits."""
    own_client.post(0, 0, b"12345678")
    own_client.post(0, 8, b"1234")
    own_client.send(VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4))
    own_client.post(0, 0, b"abcd")
    own_client.post(0, 0, b"ef")
    own_client.send_raw(HEADER.pack(7, VfioCommand.REGION_WRITE, 40, MessageFlag.NO_REPLY, 0))
    own.step()
    assert own.function.accesses == [
        ("bar_write", 0, 0, b"12345678"),
        ("bar_write", 0, 8, b"1234"),
        ("bar_read", 0, 0, 4),
        ("bar_write", 0, 0, b"abcd"),
        ("bar_write", 0, 0, b"ef"),
    ]
    assert own_client.receive().payload[-4:] == b"1234"
    own_client.send_raw(REGION_ACCESS.pack(4, 0, 8) + b"in parts")
    assert own_client.read(0, 0, 12) == b"efcdin parts"


def test_a_bad_request_in_a_batch_stops_none_of_the_others(own, own_client):
    own_client.post(0, 0, b"1234")
    own_client.post(9, 0, b"none")
    own_client.send(99, b"unknown")
    own_client.send(VfioCommand.REGION_READ, REGION_ACCESS.pack(1 << 40, 0, 4))
    own_client.post(0, 0, b"abcd")
    own_client.send(VfioCommand.REGION_READ, REGION_ACCESS.pack(0, 0, 4))
    assert own_client.receive().errno == errno.ENOTSUP
    assert own_client.receive().errno == errno.EINVAL
    assert own_client.receive().payload[-4:] == b"abcd"
    assert own.function.accesses == [
        ("bar_write", 0, 0, b"1234"),
        ("bar_write", 0, 0, b"abcd"),
        ("bar_read", 0, 0, 4),
    ]


def test_a_bad_posted_write_gets_no_reply_either(served, client):
    client.post(1, 0, b"1234")
    client.post(9, 0, b"1234")
    client.send(VfioCommand.REGION_WRITE, b"short", flags=MessageFlag.NO_REPLY)
    client.send(99, b"payload", flags=MessageFlag.NO_REPLY)
    client.post(0, 0, b"good")
    assert client.read(0, 0, 4) == b"good"


def test_any_command_can_go_without_a_reply(served, client):
    client.send(VfioCommand.DEVICE_RESET, flags=MessageFlag.NO_REPLY)
    client.device_info()
    assert served.function.resets == 1


def test_write_multi_is_not_supported(own, own_client):
    """Nobody may send what was not agreed to (see ``emu/server/vfio/negotiate.py``)."""
    with pytest.raises(VfioRefusedError) as refused:
        own_client.call(VfioCommand.REGION_WRITE_MULTI, bytes(8))
    assert refused.value.errno == errno.ENOTSUP
    assert own.function.accesses == []


def test_posted_and_awaited_writes_can_be_mixed(served, client):
    header = REGION_ACCESS.pack(0, 0, 4)
    client.post(0, 0, b"aaaa")
    first = client.send(VfioCommand.REGION_WRITE, header + b"bbbb")
    client.post(0, 0, b"cccc")
    second = client.send(VfioCommand.REGION_READ, header)
    assert client.receive()[:2] == (first, VfioCommand.REGION_WRITE)
    reply = client.receive()
    assert (reply.msg_id, reply.payload) == (second, header + b"cccc")
