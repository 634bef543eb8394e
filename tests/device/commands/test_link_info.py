"""What ethtool and mstlink read of a link: its state, why it is down, its cable (PDDR, SLTP)."""

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.physical.fec import Fec
from emu.driver.world.cable import set_link
from layouts.enums.caps import PortType
from layouts.enums.cmd import Status
from layouts.enums.regs import PortStatus, ProtoMask, RegId
from layouts.regs import link_info_regs, reg

BOTH = [LINKS["connectx6"][link] for link in (PortType.IB, PortType.ETH)]
OPERATION, TROUBLESHOOTING, MODULE = 0, 1, 3
PAGES = {
    OPERATION: link_info_regs.pddr_operation_info_page,
    TROUBLESHOOTING: link_info_regs.pddr_troubleshooting_page,
    MODULE: link_info_regs.pddr_module_info,
}
DISABLED, POLLING, ACTIVE = 0, 2, 3
CLOSED, NO_CABLE = 1, 1024
"""core/en_ethtool.c: mlx5e_link_ext_state_opcode_map; 1 is not in it."""
UNPLUGGED, PASSIVE_COPPER = 4, 3
PROCESS = {"connectx4lx": 1, "connectx5": 3, "connectx6dx": 3, "connectx7": 4, "bluefield3": 4}
"""mlxlink_enums.h: PRODUCT_TECHNOLOGY."""


@pytest.fixture(params=BOTH, ids=["ib", "eth"])
def model(request):
    return request.param


@pytest.fixture
def page(driver):
    def read(number):
        found = driver.read_register(
            RegId.PDDR, link_info_regs.pddr_reg, local_port=1, page_select=number
        )
        return PAGES[number].view(found.page_data)

    return read


def close(driver):
    """What the driver does when its interface stops (core/en_main.c: mlx5e_close)."""
    view = reg.paos_reg.new(local_port=1, admin_status=PortStatus.DOWN, ase=1)
    assert driver.write_register(RegId.PAOS, bytes(view)).status == Status.OK


def test_link_that_is_up(page, model):
    found = page(OPERATION)
    assert found.phy_mngr_fsm_state == ACTIVE
    assert page(TROUBLESHOOTING).monitor_opcode == 0
    if model.port_type is PortType.IB:
        assert found.proto_active == ProtoMask.IB
        assert (found.link_active >> 16, found.link_active & 0xFFFF) == (4, model.ib_proto_oper)
        assert found.ib_phy_fsm_state == 7
    else:
        assert found.proto_active == ProtoMask.EN
        assert found.eth_an_fsm_state == 6
        assert 1 << found.fec_mode_active == Fec.RS_544_514


def test_modes_are_those_of_ptys(page, driver, function, model):
    if model.port_type is PortType.IB:
        function.hca.ib.proto_admin = 32
        assert page(OPERATION).phy_manager_link_enabled == 4 << 16 | 32
        return
    ptys = reg.ptys_reg.new(local_port=1, proto_mask=ProtoMask.EN, ext_eth_proto_admin=1 << 4)
    assert driver.write_register(RegId.PTYS, bytes(ptys)).status == Status.OK
    ptys = driver.read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=ProtoMask.EN)
    found = page(OPERATION)
    assert found.link_active == ptys.ext_eth_proto_oper == 1 << 4
    assert found.phy_manager_link_enabled == ptys.ext_eth_proto_admin == 1 << 4
    assert found.cable_proto_cap == ptys.ext_eth_proto_capability


def test_no_cable(page, function):
    """``ethtool`` prints "Link detected: no (No cable)"."""
    set_link(function.hca, up=False)
    found, cause = page(OPERATION), page(TROUBLESHOOTING)
    assert (found.phy_mngr_fsm_state, found.link_active, found.cable_proto_cap) == (POLLING, 0, 0)
    assert cause.monitor_opcode == NO_CABLE
    assert cause.status_message.rstrip(b"\0") == b"Cable is unplugged"
    cable = page(MODULE)
    assert (cable.cable_type, cable.vendor_name) == (UNPLUGGED, bytes(16))
    set_link(function.hca, up=True)
    assert page(TROUBLESHOOTING).monitor_opcode == 0


def test_port_that_the_driver_has_closed(page, driver):
    close(driver)
    assert page(OPERATION).phy_mngr_fsm_state == DISABLED
    assert page(TROUBLESHOOTING).monitor_opcode == CLOSED


def test_state_of_the_physical_layer(driver, function):
    """mstlink asks whether a port that is down is in a test mode."""

    def status():
        found = driver.read_register(RegId.PPAOS, link_info_regs.ppaos_reg, local_port=1)
        assert (found.phy_test_mode_admin, found.phy_test_mode_status) == (0, 0)
        return found.phy_status

    assert status() == 1
    set_link(function.hca, up=False)
    assert status() == 0
    close(driver)
    assert status() == 2
    view = bytes(link_info_regs.ppaos_reg.new(local_port=1, phy_test_mode_admin=1))
    assert driver.write_register(RegId.PPAOS, view).status == Status.BAD_PARAM_ERR


def test_cable(page):
    found = page(MODULE)
    assert (found.cable_type, found.cable_length) == (PASSIVE_COPPER, 1)
    assert found.vendor_name == b"mlx5emu         "
    assert found.vendor_rev == b"\0\0A1"
    assert found.cable_technology == 0xA0  # SFF-8636, byte 147: passive copper


@pytest.mark.parametrize("number", [2, 6, 9, 255])
def test_other_pages_are_refused(driver, number):
    view = bytes(link_info_regs.pddr_reg.new(local_port=1, page_select=number))
    assert driver.write_register(RegId.PDDR, view, 1).status == Status.BAD_PARAM_ERR


class TestOfModels:
    @pytest.fixture(params=PROCESS)
    def model(self, request):
        return LINKS[request.param][PortType.ETH]

    def test_process_of_the_chip(self, driver, model):
        found = driver.read_register(RegId.SLTP, link_info_regs.sltp_reg, local_port=1)
        assert (found.version, found.status) == (PROCESS[model.name.split(",")[0]], 0)

    def test_module_has_the_ports_lanes(self, page, function):
        identifier = 2 if function.hca.eth.modes.lanes == 1 else 0
        assert page(MODULE).cable_identifier == identifier
