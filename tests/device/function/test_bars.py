"""BAR 0 as the bus sees it: registers, MSI-X structures, and accesses of any size anywhere."""

import pytest
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.function.msix import MSIX_PBA, MSIX_TABLE
from emu.driver.command.bar import MEMORY_SPACE, enable
from layouts.enums.hca import NicInterface
from layouts.function.iseg import init_seg

CMDQ_ADDR_L = 0x14
TIMER = 0x1000
HEALTH_COUNTER = 0x1010
WRITABLE = {0x10, 0x14, 0x18}
VECTORS = 64
MASKED = bytes(12) + b"\x01\0\0\0"
MS = 1_000_000


@pytest.fixture
def function(function):
    """As the kernel's pci_enable_device leaves it."""
    enable(function)
    return function


def segment(driver):
    return init_seg.view(driver.bar.read(0, init_seg.size))


def read(function, offset, length):
    return function.bar_read(0, offset, length)


def test_what_a_driver_checks_before_it_says_anything(cold, model):
    seg = segment(cold)
    assert seg.cmdif_rev_fw_sub.cmd_interface_rev == 5
    assert seg.initializing.initializing == 0
    assert seg.initializing.embedded_cpu == 0
    size, stride = seg.cmdq_addr_l_sz.log_cmdq_size, seg.cmdq_addr_l_sz.log_cmdq_stride
    assert (size, stride) == (5, 6)
    firmware = (
        seg.fw_rev.fw_rev_major,
        seg.fw_rev.fw_rev_minor,
        seg.cmdif_rev_fw_sub.fw_rev_subminor,
    )
    assert firmware == (model.fw_major, model.fw_minor, model.fw_subminor)


def test_default_timeouts(cold):
    """With cmd_q_init_to at 0 the driver does not ask for DTOR (core/lib/tout.c)."""
    seg = segment(cold)
    assert (seg.cmd_exec_to, seg.cmd_q_init_to) == (0, 0)


def test_health_buffer_tells_no_fatal_sensor(cold, model):
    health = segment(cold).health
    assert health.fw_ver not in (0, 0xFFFFFFFF)
    assert (health.synd, health.rfr_severity.rfr, health.hw_id) == (0, 0, model.hw_id)


def test_command_queue_address_reads_back(cold):
    cold.write32(0x10, 0x12345678)
    cold.write32(0x14, 0xABCDE000)
    seg = segment(cold)
    assert seg.cmdq_addr_h == 0x12345678
    assert seg.cmdq_addr_l_sz.cmdq_phy_addr_l == 0xABCDE
    assert seg.cmdq_addr_l_sz.log_cmdq_size == 5


def test_interface_is_disabled_until_a_driver_hands_over_its_queue(cold):
    """A driver that ran when the function was reset sees this at its health poll."""
    assert segment(cold).cmdq_addr_l_sz.nic_interface == NicInterface.DISABLED
    cold.attach()
    assert segment(cold).cmdq_addr_l_sz.nic_interface == NicInterface.FULL_DRIVER
    cold.write32(CMDQ_ADDR_L, NicInterface.DISABLED << 8)
    assert segment(cold).cmdq_addr_l_sz.nic_interface == NicInterface.DISABLED


def test_interface_state_that_is_not_supported(cold, caplog):
    cold.write32(CMDQ_ADDR_L, NicInterface.SW_RESET << 8)
    assert segment(cold).cmdq_addr_l_sz.nic_interface == NicInterface.FULL_DRIVER
    assert "nic_interface 7 is not supported" in caplog.text


def test_health_counter_moves_between_two_polls(cold, clock):
    first = cold.read32(HEALTH_COUNTER)
    assert cold.read32(HEALTH_COUNTER) == first
    clock.advance(50 * MS)
    assert cold.read32(HEALTH_COUNTER) != first


@pytest.mark.parametrize("ns", [0, 1, 10 * MS * 0xFFFFFFFD, 10 * MS * 0xFFFFFFFE, 1 << 63])
def test_health_counter_never_looks_dead(cold, clock, ns):
    """0 and all-ones are what the driver takes for a dead device (core/main.c: wait_vital)."""
    clock.ns = ns
    assert cold.read32(HEALTH_COUNTER) not in (0, 0xFFFFFFFF)


def test_timer_is_time_in_both_halves(cold, clock):
    clock.ns = 0x1234_5678_9ABC_DEF0
    ticks = clock.ns * 156_250 // 10**6
    assert (cold.read32(TIMER), cold.read32(TIMER + 4)) == divmod(ticks, 1 << 32)
    assert cold.bar.read(TIMER, 8) == ticks.to_bytes(8, "big")


@pytest.mark.parametrize("offset", [TIMER - 2, TIMER + 1, TIMER + 3, HEALTH_COUNTER - 1])
def test_live_registers_read_in_pieces(cold, clock, offset):
    clock.ns = 0x1234_5678_9ABC_DEF0
    whole = cold.bar.read(TIMER - 4, 32)
    at = offset - (TIMER - 4)
    for length in (1, 2, 3, 4, 8):
        assert cold.bar.read(offset, length) == whole[at : at + length]


def test_registers_are_read_only(cold):
    before = cold.bar.read(0, MSIX_TABLE)
    for offset in range(0, MSIX_TABLE, 4):
        if offset not in WRITABLE:
            cold.write32(offset, 0xFFFFFFFF)
    assert cold.bar.read(0, MSIX_TABLE) == before


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_command_registers_take_whole_words_only(cold, length):
    before = cold.bar.read(0, 0x20)
    for offset in WRITABLE:
        cold.bar.write(offset, b"\xff" * length)
    assert cold.bar.read(0, 0x20) == before


def test_outside_the_bar_there_is_nothing(function):
    size = function.bar_sizes[0]
    for bar, offset in ((0, size), (0, size - 2), (0, 1 << 63), (0, -4), (1, 0), (5, 0x1000)):
        function.bar_write(bar, offset, bytes(4))
        assert function.bar_read(bar, offset, 4) == b"\xff" * 4


def test_doorbell_pages_read_as_zero(driver):
    assert driver.bar.read(driver.uar * 4096, 64) == bytes(64)


# MSI-X.


def test_vectors_start_masked(function):
    assert read(function, MSIX_TABLE, 16 * VECTORS) == MASKED * VECTORS


def test_vector_table_takes_accesses_of_any_size(function):
    entry = MSIX_TABLE + 16 * 5
    function.bar_write(0, entry, (0xFEE0_1000).to_bytes(8, "little"))
    function.bar_write(0, entry + 8, (0x4041).to_bytes(4, "little"))
    function.bar_write(0, entry + 12, b"\0")
    assert read(function, entry, 16) == bytes.fromhex("0010e0fe000000004140000000000000")
    assert read(function, entry + 16, 16) == MASKED


def test_access_across_the_end_of_the_vector_table(function):
    end = MSIX_TABLE + 16 * VECTORS
    before = read(function, MSIX_TABLE, 16 * VECTORS)
    function.bar_write(0, end - 4, b"\x55" * 8)
    assert read(function, MSIX_TABLE, 16 * VECTORS) == before
    assert read(function, end, 4) == bytes(4)


def test_pending_vectors(function, irqs):
    enable(function, MEMORY_SPACE)
    for vector in (0, 9, 63):
        irqs.trigger(vector)
    pending = 1 << 0 | 1 << 9 | 1 << 63
    assert int.from_bytes(read(function, MSIX_PBA, 8), "little") == pending
    assert read(function, MSIX_PBA + 1, 1) == b"\x02"
    function.bar_write(0, MSIX_PBA, bytes(8))
    assert int.from_bytes(read(function, MSIX_PBA, 8), "little") == pending


@given(offset=st.integers(0, 0x9000), data=st.binary(min_size=1, max_size=64))
@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_access_near_the_front(function, offset, data):
    function.bar_write(0, offset, data)
    assert len(read(function, offset, len(data))) == len(data)
    function.run()
