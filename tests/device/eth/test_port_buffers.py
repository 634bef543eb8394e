"""Receive buffers as dcb buffer and PFC set them (core/en/port_buffer.c)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.models import MODELS
from emu.device.port.eth.buffers import CELL_BYTES, CELLS
from layouts.enums.cmd import Status
from layouts.enums.regs import CountersGroup, RegId
from layouts.regs import port_regs, qos_regs, reg

XOFF_BYTES = (301 + 216 * 7 // 100) * 100 // 1000 + 272 * 1500 // 100
"""calculate_xoff of a link of 100 Gb/s; the driver takes 7 m of cable."""
MAX_MTU = 9978


@pytest.fixture
def base_model():
    return MODELS["connectx6dx"]


@pytest.fixture
def port(function):
    return function.hca.eth


def read(driver, register, prm, **fields):
    found = driver.read_register(register, prm, local_port=1, **fields)
    return prm.view(bytearray(bytes(found)))


def pbmc(driver):
    return read(driver, RegId.PBMC, qos_regs.pbmc_reg)


def write(driver, register, view):
    return driver.write_register(register, bytes(view)).status


def test_what_there_is(driver):
    pcam = driver.read_register(RegId.PCAM, port_regs.pcam_reg)
    registers = port_regs.pcam_regs_5000_to_507f.view(pcam.port_access_reg_cap_mask)
    assert (registers.pbmc, registers.pptb) == (1, 1)
    sbcam = driver.read_register(RegId.SBCAM, qos_regs.sbcam_reg)
    assert (sbcam.cap_cell_size, sbcam.cap_total_buffer_size) == (CELL_BYTES, CELLS)


def test_at_power_on(driver):
    """One buffer, large enough for the driver to make it one without loss."""
    found = pbmc(driver)
    sizes = [entry.size * CELL_BYTES for entry in found.buffer]
    assert sizes[0] > XOFF_BYTES + MAX_MTU + CELL_BYTES
    assert not any(sizes[1:])
    pools = sum(
        driver.read_register(RegId.SBPR, qos_regs.sbpr_reg, dir=way, pool=pool).size
        for way, pool in ((1, 0), (0, 1))
    )
    assert found.port_buffer_size == CELLS == pools + found.buffer[0].size
    assert read(driver, RegId.PPTB, qos_regs.pptb_reg).prio_x_buff == 0


def test_two_buffers(driver, port):
    """dcb buffer set prio-buffer 3:1 buffer-size 0:130000 1:130000, with PFC for priority 3."""
    view = pbmc(driver)
    for number, lossy in ((0, 1), (1, 0)):
        entry = view.buffer[number]
        entry.size, entry.lossy = 900, lossy
        entry.xoff_threshold, entry.xon_threshold = (0, 0) if lossy else (800, 700)
    view.port_buffer_size = 0
    assert write(driver, RegId.PBMC, view) == Status.OK
    found = pbmc(driver)
    assert [entry.size for entry in found.buffer][:3] == [900, 900, 0]
    assert found.port_buffer_size == CELLS
    assert (port.buffers.buffers[1].lossy, port.buffers.buffers[1].xoff) == (False, 800)
    pptb = read(driver, RegId.PPTB, qos_regs.pptb_reg)
    pptb.pm, pptb.prio_x_buff = 0xFF, 1 << 12
    assert write(driver, RegId.PPTB, pptb) == Status.OK
    assert list(port.buffers.of_priority) == [0, 0, 0, 1, 0, 0, 0, 0]
    pptb.pm, pptb.prio_x_buff = 1 << 3, 0x77777777
    write(driver, RegId.PPTB, pptb)
    assert list(port.buffers.of_priority) == [0, 0, 0, 7, 0, 0, 0, 0]


def test_shared_pools(driver):
    wanted = qos_regs.sbpr_reg.new(dir=0, pool=1, size=100, mode=1)
    assert write(driver, RegId.SBPR, wanted) == Status.OK
    assert driver.read_register(RegId.SBPR, qos_regs.sbpr_reg, dir=0, pool=1).size == 100
    assert driver.read_register(RegId.SBPR, qos_regs.sbpr_reg, dir=0, pool=0).size == 0
    share = qos_regs.sbcm_reg.new(local_port=1, pg_buff=2, dir=0, pool=1, max_buff=13)
    assert write(driver, RegId.SBCM, share) == Status.OK
    found = read(driver, RegId.SBCM, qos_regs.sbcm_reg, pg_buff=2)
    assert (found.pool, found.max_buff, found.infi_max) == (1, 13, 0)
    other = read(driver, RegId.SBCM, qos_regs.sbcm_reg, pg_buff=3)
    assert (other.pool, other.max_buff) == (0, 0)


@pytest.mark.parametrize(
    ("register", "view"),
    [
        (RegId.PPTB, qos_regs.pptb_reg.new(pm=1, prio_x_buff=8)),
        (RegId.SBPR, qos_regs.sbpr_reg.new(pool=2)),
        (RegId.SBPR, qos_regs.sbpr_reg.new(dir=2)),
        (RegId.SBPR, qos_regs.sbpr_reg.new(size=CELLS + 1)),
        (RegId.SBCM, qos_regs.sbcm_reg.new(pg_buff=8)),
        (RegId.SBCM, qos_regs.sbcm_reg.new(dir=2)),
        (RegId.SBCM, qos_regs.sbcm_reg.new(pool=2)),
    ],
)
def test_what_is_refused(driver, port, register, view):
    before = repr(port.buffers)
    assert write(driver, register, view) == Status.BAD_PARAM_ERR
    assert repr(port.buffers) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1200), st.booleans(), st.integers(0, 1200), st.integers(0, 1200)),
        min_size=10, max_size=10,
    )
)  # fmt: skip
def test_sizes_that_can_be(driver, port, entries):
    """All together fit, and a buffer without loss stops the link partner in time."""
    before = repr(port.buffers)
    view = pbmc(driver)
    for entry, (size, lossy, xoff, xon) in zip(view.buffer, entries):
        entry.size, entry.lossy = size, lossy
        entry.xoff_threshold, entry.xon_threshold = xoff, xon
    can_be = sum(size for size, *_ in entries) <= CELLS and all(
        lossy or xon <= xoff <= size for size, lossy, xoff, xon in entries
    )
    assert write(driver, RegId.PBMC, view) == (Status.OK if can_be else Status.BAD_PARAM_ERR)
    if not can_be:
        assert repr(port.buffers) == before


@pytest.mark.parametrize(
    "group",
    [
        CountersGroup.ETHERNET_EXTENDED,
        CountersGroup.PER_TRAFFIC_CLASS,
        CountersGroup.PER_TRAFFIC_CLASS_CONGESTION,
    ],
)
def test_counters_of_buffers(driver, group):
    found = driver.read_register(RegId.PPCNT, reg.ppcnt_reg, local_port=1, grp=group, prio_tc=7)
    assert not any(bytes(found.counter_set))


def test_a_virtual_function_has_none(driver, function):
    function.hca.caps.general.sbcam_reg = 0
    view = qos_regs.pbmc_reg.new(local_port=1)
    assert driver.write_register(RegId.PBMC, bytes(view), op_mod=1).status == Status.BAD_PARAM_ERR
    assert MODELS["connectx6dx-vf"].general["sbcam_reg"] == 0


def test_buffers_larger_than_the_port_has_memory(driver):
    found = pbmc(driver)
    for entry in found.buffer:
        entry.size = CELLS // len(found.buffer)
    assert write(driver, RegId.PBMC, found) == Status.OK
    found.buffer[1].size += len(found.buffer)
    assert write(driver, RegId.PBMC, found) == Status.BAD_PARAM_ERR
