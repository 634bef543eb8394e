"""VFIO_USER_DEVICE_RESET, and commands that are not supported."""

import errno
import os

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import MessageFlag, VfioCommand


def test_reset(served, client):
    client.reset()
    client.reset()
    assert served.function.resets == 2


def test_reset_forgets_what_is_latched_but_not_the_eventfds(served, client):
    fd = client.enable_vector(0)
    served.interrupts.trigger(1)
    client.reset()
    assert not served.interrupts.pending(1)
    served.interrupts.trigger(0)
    assert os.eventfd_read(fd) == 1


def test_reset_keeps_memory(served, client):
    ram = served.ram(0x1000)
    client.dma_map(0, 0x1000, fd=ram.fd)
    client.reset()
    served.memory.write(0, b"kept")
    assert ram.bytes[:4] == b"kept"


def test_reset_has_no_payload(own, own_client):
    with pytest.raises(VfioRefusedError):
        own_client.call(VfioCommand.DEVICE_RESET, b"\0")
    assert own.function.resets == 0


def test_an_error_reply_is_a_header_only(own_client):
    msg_id = own_client.send(99, b"payload")
    flags = MessageFlag.REPLY | MessageFlag.ERROR
    assert own_client.receive() == (msg_id, 99, flags, errno.ENOTSUP, b"")


@pytest.mark.parametrize(
    "command",
    [
        VfioCommand.DEVICE_FEATURE,
        VfioCommand.DMA_READ,
        VfioCommand.DMA_WRITE,
        VfioCommand.MIG_DATA_READ,
        VfioCommand.MIG_DATA_WRITE,
        0,
        14,
        19,
        0xFFFF,
    ],
)
def test_unsupported_command(served, client, command):
    with pytest.raises(VfioRefusedError) as refused:
        client.call(command, bytes(64))
    assert refused.value.errno == (errno.ENOTSUP if served.own else errno.EINVAL)
    client.device_info()
