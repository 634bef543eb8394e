"""Link modes and error correction, as ethtool shows and chooses them (PTYS, PPLM)."""

import pytest

from emu.device.models import LINKS
from emu.device.port.eth.physical.fec import Fec, of_modes
from emu.device.port.eth.physical.speed import LinkModes
from layouts.enums.caps import PortType
from layouts.enums.cmd import Status
from layouts.enums.regs import AnStatus, ExtLinkMode, LinkMode, RegId
from layouts.regs import module_regs, port_regs, reg

EN = 4
SEEN = {
    "connectx4lx": (0x38007013, 0),
    "connectx5": (0xF8F5F0D3, 0),
    "connectx6": (0xF8F5F0D3, 0x17F2),
    "connectx6lx": (0x38007013, 0x52),
    "connectx6dx": (0xF8F5F0D3, 0x7F2),
    "bluefield2": (0xF8F5F0D3, 0x7F2),
    "connectx7": (0xF8F5F0D3, 0x13FF2),
    "bluefield3": (0xF8F5F0D3, 0x13FF2),
}
"""Capability masks; those of ConnectX-4 Lx and -6 are what mlxlink shows of real cards."""


@pytest.fixture(params=["connectx6dx"])
def name(request):
    return request.param


@pytest.fixture
def base_model(name):
    return LINKS[name][PortType.ETH]


@pytest.fixture
def port(function):
    return function.hca.eth


@pytest.fixture
def ptys(driver):
    def read(proto_mask=EN):
        return driver.read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=proto_mask)

    return read


@pytest.fixture
def choose(driver):
    def write(**fields):
        values = reg.ptys_reg.new(**{"local_port": 1, "proto_mask": EN, **fields})
        return driver.write_register(RegId.PTYS, bytes(values)).status

    return write


@pytest.fixture
def pplm(driver):
    return lambda: driver.read_register(RegId.PPLM, port_regs.pplm_reg, local_port=1)


def features(driver):
    pcam = driver.read_register(RegId.PCAM, port_regs.pcam_reg)
    return port_regs.pcam_enhanced_features.view(pcam.feature_cap_mask)


@pytest.mark.parametrize("name", SEEN, indirect=True)
def test_modes_are_the_models(driver, name, ptys, model):
    legacy, extended = SEEN[name]
    found = ptys()
    assert (found.eth_proto_capability, found.ext_eth_proto_capability) == (legacy, extended)
    assert (found.eth_proto_admin, found.ext_eth_proto_admin) == (
        (0, extended) if extended else (legacy, 0)
    )
    assert found.data_rate_oper * 100 == model.eth_speed
    assert features(driver).ptys_extended_ethernet == bool(extended)
    pmlp = driver.read_register(RegId.PMLP, module_regs.pmlp_reg, local_port=1)
    assert pmlp.width == (1 if model.eth_speed == 25_000 else 4)
    assert found.eth_proto_lp_advertise == (extended or legacy)


def test_no_speed_without_a_link(port, ptys):
    port.set_link(up=False)
    found = ptys()
    assert (found.eth_proto_oper, found.ext_eth_proto_oper, found.data_rate_oper) == (0, 0, 0)
    assert found.ext_eth_proto_capability
    assert found.an_status == AnStatus.UNAVAILABLE


def test_no_infiniband(ptys):
    found = ptys(proto_mask=1)
    assert (found.eth_proto_capability, found.ib_proto_capability) == (0, 0)


def test_a_slower_mode(port, ptys, choose):
    """ethtool -s eth0 speed 25000 autoneg off."""
    mask = 1 << ExtLinkMode.MODE_25GAUI_1_25GBASE_CR_KR
    assert choose(ext_eth_proto_admin=mask, an_disable_admin=1) == Status.OK
    found = ptys()
    assert (found.ext_eth_proto_admin, found.eth_proto_admin) == (mask, 0)
    assert (found.ext_eth_proto_oper, found.data_rate_oper) == (mask, 250)
    assert found.an_status == AnStatus.UNAVAILABLE
    assert found.eth_proto_lp_advertise == 0
    assert port.speed == 25_000
    assert choose() == Status.OK
    assert (port.speed, port.an_disabled) == (100_000, False)


def test_by_legacy_masks(port, ptys, choose):
    """ethtool -s eth0 advertise ... of modes that ConnectX-5 had (core/en_ethtool.c)."""
    mask = 1 << LinkMode.MODE_40GBASE_KR4 | 1 << LinkMode.MODE_10GBASE_CR
    assert choose(eth_proto_admin=mask) == Status.OK
    found = ptys()
    assert (found.ext_eth_proto_admin, found.eth_proto_admin) == (0, mask)
    assert found.eth_proto_oper == 1 << LinkMode.MODE_40GBASE_KR4
    assert port.speed == 40_000


def test_the_fastest_of_several(port, choose):
    """And of two with one speed the one with more lanes."""
    for bits, lanes in (((10, 6), 2), ((10, 9, 4), 4)):
        assert choose(ext_eth_proto_admin=sum(1 << bit for bit in bits)) == Status.OK
        assert (port.speed, port.modes.mode.lanes) == (100_000, lanes)


@pytest.mark.parametrize(
    "fields",
    [
        {"ext_eth_proto_admin": 1 << ExtLinkMode.MODE_200GAUI_4_200GBASE_CR4_KR4},
        {"eth_proto_admin": 1 << LinkMode.MODE_56GBASE_R4},
        {"proto_mask": 1},
    ],
)
def test_modes_that_there_are_not(port, ptys, choose, fields):
    before = bytes(ptys())
    assert choose(**fields, an_disable_admin=1) == Status.BAD_PARAM_ERR
    assert bytes(ptys()) == before


class TestErrorCorrection:
    """ethtool --set-fec: a code for each mode, or what the port thinks best."""

    def choose(self, driver, **codes):
        values = {f"fec_override_admin_{name}": code for name, code in codes.items()}
        write = port_regs.pplm_reg.new(local_port=1, **values)
        return driver.write_register(RegId.PPLM, bytes(write)).status

    def test_of_the_mode_in_use(self, driver, port, pplm):
        found = pplm()
        assert found.fec_override_cap_100g == Fec.NONE | Fec.RS_528_514
        assert found.fec_override_cap_100g_2x == Fec.RS_544_514
        assert found.fec_override_cap_200g_4x == 0
        assert (found.fec_override_admin_100g, found.fec_mode_active) == (0, Fec.RS_528_514)
        assert self.choose(driver, **{"100g": Fec.NONE}) == Status.OK
        assert pplm().fec_mode_active == pplm().fec_override_admin_100g == Fec.NONE
        for wrong in (Fec.FIRECODE, Fec.NONE | Fec.RS_528_514, 8):
            assert self.choose(driver, **{"100g": wrong}) == Status.BAD_PARAM_ERR
        port.set_link(up=False)
        assert (pplm().fec_mode_active, pplm().fec_override_admin_100g) == (0, Fec.NONE)
        assert self.choose(driver) == Status.OK
        assert not any(port.fec_admin.values())

    def test_follows_the_speed(self, driver, pplm, choose):
        """As the driver writes it: each mode that has the code gets it, others are automatic."""
        codes = {"10g_40g": Fec.FIRECODE, "25g": Fec.FIRECODE, "50g": Fec.FIRECODE}
        assert self.choose(driver, **codes) == Status.OK
        for mode, code in ((6, Fec.FIRECODE), (9, Fec.RS_528_514), (10, Fec.RS_544_514)):
            assert choose(ext_eth_proto_admin=1 << mode) == Status.OK
            assert pplm().fec_mode_active == code
        assert choose(ext_eth_proto_admin=1 << ExtLinkMode.MODE_1000BASE_X_SGMII) == Status.OK
        assert pplm().fec_mode_active == Fec.NONE

    @pytest.mark.parametrize("speed", [25_000, 100_000, 200_000, 400_000])
    def test_each_field_is_there(self, speed):
        fields = {one.name for one in port_regs.pplm_reg.fields}
        for name in of_modes(LinkModes.of(speed, is_extended=True).able):
            assert {f"fec_override_cap_{name}", f"fec_override_admin_{name}"} <= fields
