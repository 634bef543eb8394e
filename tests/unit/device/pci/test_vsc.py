"""The vendor-specific gateway, driven the way core/lib/pci_vsc.c and core/diag/crdump.c do."""

import pytest
from helpers.device.pci import Bus, CrWords

from emu.driver.command.gateway import (
    ADDRESS,
    ADDRESS_MASK,
    COUNTER,
    DATA,
    FLAG,
    SEMAPHORE,
    SYNDROME,
    Gateway,
)

SPACE_CR, SPACE_SCAN_CR, SPACE_SEMAPHORE = 0x2, 0x7, 0xA
SW_RESET_LOCK = 0x20
BAD_ACCESS = 0xBADACCE5


@pytest.fixture
def gateway():
    return Gateway(Bus("connectx6"))


def test_head(gateway):
    assert gateway.get(0) >> 16 == 0x18, "length, and type 0"


def test_the_counter_never_repeats_and_is_never_zero(gateway):
    tickets = [gateway.get(COUNTER) for _ in range(100)]
    assert len(set(tickets)) == 100
    assert 0 not in tickets


def test_the_gateway_has_one_owner(gateway):
    assert gateway.lock()
    owner = gateway.get(SEMAPHORE)
    assert not gateway.lock()
    gateway.put(SEMAPHORE, owner + 1)
    gateway.bus.put(gateway.at + SEMAPHORE + 1, 1, 0x55)
    assert gateway.get(SEMAPHORE) == owner
    gateway.unlock()
    assert gateway.lock()


def test_crdump(gateway):
    """crdump.c: enable reads the size, collect takes the reset lock and scans."""
    assert gateway.lock()
    size = gateway.set_space(SPACE_SCAN_CR)
    assert size == 0x2000
    assert gateway.set_semaphore(SW_RESET_LOCK, take=True)
    gateway.set_space(SPACE_SCAN_CR)
    words = gateway.read_block(size)
    assert words == [at ^ 0x5A5A_0000 for at in range(0, size, 4)]
    assert gateway.set_semaphore(SW_RESET_LOCK, take=False)
    gateway.unlock()


@pytest.mark.parametrize("space", [0, 4, 5, 0x102, 0xFFFF])
def test_other_spaces_do_not_exist(gateway, space):
    gateway.set_space(SPACE_SCAN_CR)
    assert gateway.set_space(space) is None
    gateway.put(ADDRESS, 0)
    assert gateway.get(ADDRESS) == FLAG | SYNDROME
    assert gateway.get(DATA) == BAD_ACCESS
    gateway.put(ADDRESS, FLAG)
    assert gateway.get(ADDRESS) == SYNDROME
    assert not gateway.bus.cr.asked


def test_locks_are_separate_and_exclusive(gateway):
    assert gateway.set_space(SPACE_SEMAPHORE) == 0
    assert gateway.set_semaphore(SW_RESET_LOCK, take=True)
    assert not gateway.set_semaphore(SW_RESET_LOCK, take=True)
    assert gateway.set_semaphore(SW_RESET_LOCK + 1, take=True)
    assert gateway.set_semaphore(SW_RESET_LOCK, take=False)
    assert gateway.set_semaphore(SW_RESET_LOCK, take=True)


def test_there_is_an_end_to_the_locks(gateway):
    gateway.set_space(SPACE_SEMAPHORE)
    gateway.write(ADDRESS_MASK, 1)
    assert gateway.get(ADDRESS) & SYNDROME
    assert gateway.read(0x100) == BAD_ACCESS


def test_cr_space_by_address(gateway):
    assert gateway.set_space(SPACE_CR) == 0x2000
    gateway.write(0x1FFC, 0x12345678)
    assert gateway.bus.cr.written == {0x1FFC: 0x12345678}
    assert gateway.read(0x1FFC) == 0x12345678
    assert gateway.get(ADDRESS) == FLAG | 0x1FFC, "stays where it is"


def test_words_far_behind_the_end_are_read_by_address_alone(gateway):
    gateway.set_space(SPACE_CR)
    assert gateway.read(0xF0014) == 0x20F
    gateway.write(0xF0014, 1)
    assert gateway.get(ADDRESS) & SYNDROME
    gateway.set_space(SPACE_SCAN_CR)
    assert gateway.read(0xF0014) == BAD_ACCESS
    assert not gateway.bus.cr.asked
    assert not gateway.bus.cr.written


def test_the_scan_space_is_read_only(gateway):
    gateway.set_space(SPACE_SCAN_CR)
    gateway.write(0, 1)
    assert gateway.get(ADDRESS) & SYNDROME
    assert not gateway.bus.cr.written


@pytest.mark.parametrize("space", [SPACE_CR, SPACE_SCAN_CR])
@pytest.mark.parametrize("address", [1, 2, 0x1FFE, 0x2000, 0x2004, ADDRESS_MASK])
def test_addresses_are_checked_before_the_device_is_asked(gateway, space, address):
    gateway.set_space(space)
    assert gateway.read(address) == BAD_ACCESS
    assert gateway.get(ADDRESS) & SYNDROME
    gateway.write(address, 1)
    assert gateway.get(ADDRESS) & SYNDROME
    assert not gateway.bus.cr.asked
    assert not gateway.bus.cr.written


def test_an_address_written_in_halves_is_one_access(gateway):
    """The half with the flag starts it: a low half alone does not, whatever the flag was before."""
    gateway.set_space(SPACE_CR)
    gateway.read(0)
    gateway.bus.put(gateway.at + ADDRESS, 2, 0x40)
    assert not gateway.bus.cr.written
    gateway.bus.put(gateway.at + ADDRESS + 2, 2, 0)
    assert gateway.bus.cr.asked == [0, 0x40]
    assert gateway.get(DATA) == 0x40 ^ 0x5A5A_0000


def test_words_wider_than_the_register_are_cut():
    cr = CrWords()
    cr.written[0] = 0x1_2345_6789
    gateway = Gateway(Bus(crspace=cr))
    gateway.set_space(SPACE_CR)
    assert gateway.read(0) == 0x2345_6789


@pytest.mark.parametrize("how", ["reset", "flr"])
def test_resets_free_the_locks(gateway, how):
    gateway.lock()
    gateway.set_semaphore(SW_RESET_LOCK, take=True)
    if how == "flr":
        gateway.bus.put(gateway.bus.capabilities()[0x10] + 8, 2, 0x8000)
    else:
        gateway.bus.space.reset()
    assert gateway.get(SEMAPHORE) == 0
    gateway.set_space(SPACE_SEMAPHORE)
    assert gateway.read(SW_RESET_LOCK) == 0
