"""What a board tells of itself: cable, heat, power of the slot, the PCIe link's counters."""

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.models import LINKS, MODELS
from emu.driver.world.cable import set_link
from layouts.enums.caps import PortType
from layouts.enums.cmd import Status
from layouts.enums.eqe import EventType
from layouts.enums.regs import RegId
from layouts.regs import module_regs, port_counters, port_regs, reg
from layouts.rings.eqe import eqe_port_module, eqe_temp_warning

BOTH = [LINKS["connectx6"][link] for link in (PortType.IB, PortType.ETH)]
ASIC, MODULE = 0, 64
PLUGGED, UNPLUGGED = 1, 2
"""core/lib/events.h: port_module_event_status_type."""
PCI_POWER_CHANGE = 5
"""device.h: MLX5_GENERAL_SUBTYPE_PCI_POWER_CHANGE_EVENT."""
ALL = (EventType.PORT_MODULE_EVENT, EventType.TEMP_WARN_EVENT, EventType.GENERAL_EVENT)


@pytest.fixture(params=BOTH, ids=["ib", "eth"])
def model(request):
    return request.param


@pytest.fixture
def events(driver):
    """Makes an event queue; then what has come since."""

    def queue(*types):
        eqn = driver.create_eq(events=types)
        return lambda: [
            (EventType(entry.type), entry.sub_type, bytes(entry.data))
            for entry in driver.eqs[eqn].drain()
        ]

    return queue


def mtmp(driver, sensor, **fields):
    return driver.read_register(RegId.MTMP, module_regs.mtmp_reg, sensor_index=sensor, **fields)


def warm(function, celsius):
    """A plan sets the chip's temperature."""
    injector = Injector(function)
    function.use_faults(injector)
    injector.load(load(f'[[rule]]\npoint="load"\naction="temperature"\ncelsius={celsius}'))


def statuses(found):
    return [
        eqe_port_module.view(data).module_status
        for kind, _, data in found
        if kind is EventType.PORT_MODULE_EVENT
    ]


def test_each_boot_tells_of_cable_and_power(events):
    cable, power = events(*ALL)()
    assert cable[0] is EventType.PORT_MODULE_EVENT
    module = eqe_port_module.view(cable[2])
    assert (module.module, module.module_status) == (0, PLUGGED)
    assert power[:2] == (EventType.GENERAL_EVENT, PCI_POWER_CHANGE)


def test_only_what_is_asked_for(events):
    assert events(EventType.PORT_CHANGE)() == []


def test_cable(events, driver, function):
    found = events(EventType.PORT_MODULE_EVENT)
    for up in (False, False, True):
        set_link(function.hca, up=up)
    assert statuses(found()) == [
        PLUGGED, UNPLUGGED, PLUGGED,
    ]  # fmt: skip


def test_a_virtual_function_hears_nothing(events, function):
    function.hca.caps.general.port_module_event = 0
    assert events(EventType.PORT_MODULE_EVENT)() == []
    general = MODELS["connectx6-vf"].general
    for name in ("port_module_event", "temp_warn_event", "general_notification_event"):
        assert (general[name], MODELS["connectx6"].general[name]) == (0, 1)


class TestTemperature:
    def test_what_there_is(self, driver):
        mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
        assert port_regs.mcam_access_reg.view(mcam.mng_access_reg_cap_mask).mtmp
        mtcap = driver.read_register(RegId.MTCAP, module_regs.mtcap_reg)
        assert (mtcap.sensor_count, mtcap.sensor_map) == (1, 1 << ASIC)

    def test_sensor(self, driver):
        """As hwmon reads it: 0.125 degrees, a name in 8 bytes (core/hwmon.c)."""
        found = mtmp(driver, ASIC)
        assert found.temperature == found.max_temperature == 50 * 8
        assert found.temp_threshold_hi == 105 * 8
        assert bytes(found)[24:32] == b"asic\0\0\0\0"

    def test_diodes_of_the_chip(self, driver):
        """As mstmget_temp reads them: the number of diodes, then each one."""
        mtcap = driver.read_register(RegId.MTCAP, module_regs.mtcap_reg)
        assert mtcap.internal_sensor_count == 1
        assert mtmp(driver, ASIC, i=1).temperature == 50 * 8
        for other in (1, MODULE):
            view = bytes(module_regs.mtmp_reg.new(i=1, sensor_index=other))
            assert driver.write_register(RegId.MTMP, view, 1).status == Status.BAD_PARAM_ERR

    def test_cable_has_no_sensor(self, driver):
        assert mtmp(driver, MODULE).temperature == 0

    def test_no_other_sensors(self, driver):
        view = bytes(module_regs.mtmp_reg.new(sensor_index=1))
        assert driver.write_register(RegId.MTMP, view, 1).status == Status.BAD_PARAM_ERR

    def test_highest(self, driver, function):
        warm(function, 60)
        warm(function, 40)
        found = mtmp(driver, ASIC)
        assert (found.temperature, found.max_temperature) == (320, 480)
        assert mtmp(driver, ASIC, mtr=1).max_temperature == 320
        assert driver.write_register(RegId.MTMP, bytes(mtmp(driver, ASIC))).status == Status.OK

    def test_too_hot(self, driver, function, events):
        """The effect of a plan; the driver hears of it once."""
        found = events(EventType.TEMP_WARN_EVENT)
        warm(function, 110)
        ((kind, _, data),) = found()
        assert kind is EventType.TEMP_WARN_EVENT
        assert eqe_temp_warning.view(data).sensor_warning_lsb == 1
        assert mtmp(driver, ASIC).temperature == 880
        warm(function, 106)
        assert found() == []


class TestPcie:
    def test_counters(self, driver):
        mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
        features = port_regs.mcam_enhanced_features.view(mcam.mng_feature_cap_mask)
        assert features.pcie_performance_group
        assert features.pcie_outbound_stalled
        for group in (0, 1, 2):
            found = driver.read_register(RegId.MPCNT, port_counters.mpcnt_reg, grp=group)
            assert not any(bytes(found.counter_set))
        for other in ({"grp": 3}, {"pcie_index": 1}):
            wrong = bytes(port_counters.mpcnt_reg.new(**other))
            assert driver.write_register(RegId.MPCNT, wrong, 1).status == Status.BAD_PARAM_ERR

    def test_link(self, driver):
        found = driver.read_register(RegId.MPEIN, reg.mpein_reg)
        assert (found.link_width_active, found.link_speed_active) == (16, 8)
        assert found.pwr_status == 0

    def test_lanes(self, driver):
        assert driver.read_register(RegId.PMLP, module_regs.pmlp_reg, local_port=1).width == 4


def test_no_long_reads_of_the_module(driver):
    """Linux 6.1.176 would ask for more words of mcia_reg than it has room for."""
    mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
    assert not port_regs.mcam_enhanced_features.view(mcam.mng_feature_cap_mask).mcia_32dwords
