"""A guest's accesses through the first queue, as arch/um/drivers/virt-pci.c makes them."""

import os

import pytest

from emu.driver.transport.vhost_client import QUEUE_SIZE
from emu.server.vhost.pcidev import COMMANDS, INTERRUPTS
from emu.server.vhost.protocol import PCIDEV_MESSAGE, VRING_STATE, PcidevOp, VhostRequest


def test_configuration_space(served, client):
    client.config_write(4, b"\6\0")
    assert client.config_read(4, 2) == b"\6\0"
    assert served.function.accesses[0] == ("config_write", 4, b"\6\0")
    assert ("config_read", 4, 2) in served.function.accesses


@pytest.mark.hostile
def test_accesses_wait_behind_one_that_uses_up_the_round(served, client):
    """Each write of configuration space may reset the function."""
    served.function.is_round_used = True
    out = PCIDEV_MESSAGE.pack(PcidevOp.CFG_WRITE, 0, 0, 2, 4) + bytes(8)
    client.memory[0x8000 : 0x8000 + len(out)] = out
    client.commands.describe(0, client.base + 0x8000, len(out))
    for _ in range(QUEUE_SIZE):
        client.commands.offer(0)

    def executed():
        return sum(access[0] == "config_write" for access in served.function.accesses)

    client.kick(COMMANDS)
    first = executed()
    assert first < QUEUE_SIZE // 2
    for number in range(first, QUEUE_SIZE):
        assert executed() == number
        served.step()
    assert executed() == QUEUE_SIZE


@pytest.mark.parametrize("size", [1, 2, 4, 8, 64])
def test_bar(served, client, size):
    data = bytes(range(1, size + 1))
    client.write(2, 0x40, data)
    assert client.read(2, 0x40, size) == data
    assert served.function.accesses == [("bar_write", 2, 0x40, data), ("bar_read", 2, 0x40, size)]


def test_more_writes_than_the_ring_is_long(served, client):
    for number in range(QUEUE_SIZE * 5 // 2):
        client.write(0, 0, number.to_bytes(4, "little"))
    assert len(served.function.accesses) == QUEUE_SIZE * 5 // 2


def test_the_driver_is_called_to_free_posted_writes(client):
    """Without a call its queue would soon be full: nothing else frees their buffers."""
    for _ in range(QUEUE_SIZE):
        client.write(0, 0, b"\0\0\0\0")
    calls = os.read(client.calls, 4096)
    assert VRING_STATE.unpack(calls[12:20]) == (COMMANDS, 0)
    assert len(calls) < QUEUE_SIZE * 20


@pytest.mark.parametrize(
    ("op", "bar", "offset", "size"),
    [
        (PcidevOp.MMIO_READ, 0, 1 << 16, 4),
        (PcidevOp.MMIO_READ, 0, (1 << 16) - 2, 4),
        (PcidevOp.MMIO_READ, 1, 0, 4),
        (PcidevOp.MMIO_READ, 6, 0, 4),
        (PcidevOp.MMIO_READ, 0, 0, 0),
        (PcidevOp.MMIO_READ, 0, (1 << 64) - 2, 4),
        (PcidevOp.CFG_READ, 0, 4096, 4),
        (PcidevOp.CFG_READ, 0, 4094, 4),
        (PcidevOp.CFG_READ, 0, 0, 3),
        (PcidevOp.MSI, 0, 0, 4),
        (0, 0, 0, 4),
        (255, 0, 0, 4),
    ],
)
@pytest.mark.hostile
def test_a_refused_access_reads_ones(served, client, caplog, op, bar, offset, size):
    length, data = client.exchange(PCIDEV_MESSAGE.pack(op, bar, 0, size, offset), 8)
    assert (length, data) == (0, b"\xff" * 8)
    assert not served.function.accesses
    assert "refused" in caplog.text
    assert client.read(0, 0, 4) == bytes(4)


@pytest.mark.parametrize(
    ("op", "size", "data"),
    [
        (PcidevOp.MMIO_WRITE, 4, b"\1"),
        (PcidevOp.MMIO_WRITE, 0, b""),
        (PcidevOp.MMIO_WRITE, 1 << 31, b"\1"),
        (PcidevOp.CFG_WRITE, 8, b"\1"),
        (PcidevOp.MMIO_MEMSET, 4, b"\1"),
    ],
)
@pytest.mark.hostile
def test_a_refused_write_changes_nothing(served, client, op, size, data):
    client.exchange(PCIDEV_MESSAGE.pack(op, 0, 0, size, 0) + data, 0)
    assert not served.function.accesses


@pytest.mark.hostile
def test_a_message_that_is_too_short(served, client):
    assert client.exchange(b"\3", 4) == (0, b"\xff" * 4)


def test_a_stopped_queue_goes_on_where_it_was(served, client):
    client.write(0, 0, b"\1\0\0\0")
    base = client.ask(VhostRequest.GET_VRING_BASE, VRING_STATE.pack(COMMANDS, 0))
    assert VRING_STATE.unpack(base) == (COMMANDS, 1)
    client.kick(COMMANDS)
    client.enable(COMMANDS)
    client.write(0, 0, b"\2\0\0\0")
    assert client.read(0, 0, 4) == b"\2\0\0\0"


def test_memory_needs_bus_mastering_but_the_queues_do_not(served, client):
    memory = served.transport.memory
    memory.permit(False)
    assert client.read(0, 0, 4) == bytes(4)
    memory.permit(True)
    client.memory[0x8000:0x8004] = b"abcd"
    assert memory.read(client.base + 0x8000, 4) == b"abcd"


def test_the_next_front_end_finds_a_reset_function(served, client):
    client.sock.close()
    served.settle()
    assert served.function.resets == 1
    assert len(served.transport.memory) == 0
    again = served.client()
    again.enable(INTERRUPTS, False)
    assert again.read(0, 0, 4) == bytes(4)
