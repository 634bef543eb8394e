"""The ICMD space, driven the way iPXE's mlx_icmd.c does."""

import pytest
from helpers.device.pci import Bus

from emu.driver.command.gateway import ADDRESS, DATA, SYNDROME, Gateway

SPACE_ICMD = 0x3
CONTROL, SIZE, MAILBOX = 0, 0x1000, 0x10_0000
BYTES = 1024
BUSY = 1


@pytest.fixture
def bus():
    return Bus("connectx6")


@pytest.fixture
def gateway(bus):
    gateway = Gateway(bus)
    assert gateway.set_space(SPACE_ICMD) == 0, "there, and without an end that is told"
    return gateway


def test_size_of_the_mailbox(gateway):
    assert gateway.read(SIZE) == BYTES


def test_a_command(gateway, bus):
    gateway.write(MAILBOX, 0x01020304)
    gateway.write(MAILBOX + 4, 0x05060708)
    gateway.write(CONTROL, 0x9001 << 16)
    assert bus.icmd.ran == []
    gateway.write(CONTROL, 0x9001 << 16 | BUSY)
    assert bus.icmd.ran == [(0x9001, bytes(range(1, 9)))]
    assert gateway.read(CONTROL) == 0x9001 << 16 | 5 << 8
    assert gateway.read(MAILBOX) == 0x04030201


@pytest.mark.parametrize("address", [4, SIZE + 4, MAILBOX - 4, MAILBOX + 2, MAILBOX + BYTES])
def test_addresses_that_there_are_not(gateway, address):
    gateway.write(address, 1)
    assert gateway.get(ADDRESS) & SYNDROME
    gateway.read(address)
    assert gateway.get(ADDRESS) & SYNDROME
    assert gateway.get(DATA) == 0xBADACCE5


def test_the_size_cannot_be_written(gateway):
    gateway.write(SIZE, 8)
    assert gateway.get(ADDRESS) & SYNDROME
    assert gateway.read(SIZE) == BYTES


def test_a_reset_clears_it(gateway, bus):
    gateway.write(MAILBOX, 7)
    gateway.write(CONTROL, 1 << 16 | BUSY)
    bus.space.reset()
    gateway.set_space(SPACE_ICMD)
    assert (gateway.read(CONTROL), gateway.read(MAILBOX)) == (0, 0)
