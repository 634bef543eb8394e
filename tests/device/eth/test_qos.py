"""Priorities, traffic classes and flow control, as mlx5e sets them for dcb and ethtool -A."""

import pytest
from helpers.device.snapshot import snapshot

from emu.device.models import LINKS
from emu.device.port.eth.flow_control import CONTROL_ADDRESS, MAC_CONTROL
from emu.device.port.eth.frame import Frame
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType
from layouts.enums.cmd import Status
from layouts.enums.regs import CountersGroup, RegId, TrustState
from layouts.regs import port_counters, port_regs, qos_regs, reg

PRIORITY = port_counters.eth_per_prio_grp_data_layout
PCP, DSCP = TrustState


@pytest.fixture
def model():
    return LINKS["connectx6dx"][PortType.ETH]


def write(driver, register, prm, **fields):
    return driver.write_register(register, bytes(prm.new(**fields))).status


def counters(driver, group, prm, priority=0):
    ppcnt = driver.read_register(
        RegId.PPCNT, reg.ppcnt_reg, local_port=1, grp=group, prio_tc=priority
    )
    return {name: value for name, value in prm.view(ppcnt.counter_set).as_dict().items() if value}


def test_the_driver_is_told_of_the_registers(driver):
    qcam = driver.read_register(RegId.QCAM, port_regs.qcam_reg)
    mask = qos_regs.qcam_access_reg_cap_mask.view(qcam.qos_access_reg_cap_mask)
    assert (mask.qpts, mask.qpdpm, mask.qdpm, mask.qcap) == (1, 1, 0, 0)


class TestTrust:
    def test_priorities_follow_dscp_when_the_driver_says_so(self, driver, function):
        """As ``dcb app add dev eth0 dscp-prio 26:3`` does."""
        table = qos_regs.qpdpm_reg.new(local_port=1)
        table.dscp[26].e, table.dscp[26].prio = 1, 5
        assert driver.write_register(RegId.QPDPM, bytes(table)).status == Status.OK
        found = driver.read_register(RegId.QPDPM, qos_regs.qpdpm_reg, local_port=1)
        assert [entry.prio for entry in found.dscp] == [
            5 if dscp == 26 else dscp // 8 for dscp in range(64)
        ]
        before = driver.read_register(RegId.QPTS, qos_regs.qpts_reg, local_port=1)
        assert before.trust_state == PCP
        arrive(function.hca, Frame(dscp(26)))
        assert write(driver, RegId.QPTS, qos_regs.qpts_reg, local_port=1, trust_state=DSCP) == 0
        arrive(function.hca, Frame(dscp(26)))
        assert counters(driver, CountersGroup.PER_PRIORITY, PRIORITY, 5)["rx_frames_low"] == 1
        assert counters(driver, CountersGroup.PER_PRIORITY, PRIORITY, 0)["rx_frames_low"] == 1

    @pytest.mark.parametrize("state", [0, 3, 7])
    def test_unknown_trust(self, driver, state):
        refused = write(driver, RegId.QPTS, qos_regs.qpts_reg, local_port=1, trust_state=state)
        assert refused == Status.BAD_PARAM_ERR

    def test_a_table_with_a_wrong_entry_changes_nothing(self, driver, function):
        table = qos_regs.qpdpm_reg.new(local_port=1)
        table.dscp[1].e, table.dscp[1].prio = 1, 7
        table.dscp[2].e, table.dscp[2].prio = 1, 8
        before = snapshot(function.hca)
        refused = driver.write_register(RegId.QPDPM, bytes(table)).status
        assert (refused, snapshot(function.hca)) == (Status.BAD_PARAM_ERR, before)


def dscp(value):
    """An IPv4 header with this DSCP behind the MAC addresses."""
    return (bytes(12) + b"\x08\x00\x45" + bytes((value << 2,))).ljust(60, b"\0")


class TestClasses:
    def test_priorities_have_classes(self, driver):
        """port.c: mlx5_set_port_prio_tc leaves the port's number out."""
        assert write(driver, RegId.QTCT, qos_regs.qtct_reg, prio=3, tclass=6) == Status.OK
        found = driver.read_register(RegId.QTCT, qos_regs.qtct_reg, port_number=1, prio=3)
        assert found.tclass == 6
        assert driver.read_register(RegId.QTCT, qos_regs.qtct_reg, prio=4).tclass == 4

    def test_groups_and_shares_are_set_one_by_one(self, driver):
        groups = qos_regs.qetc_reg.new()
        for tclass, entry in enumerate(groups.tc_configuration):
            entry.g, entry.group, entry.bw_allocation = 1, tclass // 2, 3
        assert driver.write_register(RegId.QETCR, bytes(groups)).status == Status.OK
        share = qos_regs.qetc_reg.new()
        share.tc_configuration[2].b, share.tc_configuration[2].bw_allocation = 1, 60
        assert driver.write_register(RegId.QETCR, bytes(share)).status == Status.OK
        found = driver.read_register(RegId.QETCR, qos_regs.qetc_reg).tc_configuration
        assert [entry.group for entry in found] == [0, 0, 1, 1, 2, 2, 3, 3]
        assert [entry.bw_allocation for entry in found] == [100, 100, 60, *[100] * 5]

    def test_what_is_not_chosen_is_not_looked_at(self, driver, function):
        config = qos_regs.qetc_reg.new()
        config.tc_configuration[5].assign({"group": 8, "bw_allocation": 101, "max_bw_units": 4})
        before = snapshot(function.hca)
        assert driver.write_register(RegId.QETCR, bytes(config)).status == Status.OK
        assert snapshot(function.hca) == before

    @pytest.mark.parametrize(
        "wrong",
        [
            {"g": 1, "group": 8},
            {"b": 1, "bw_allocation": 101},
            {"r": 1, "max_bw_units": 5, "max_bw_value": 1},
        ],
        ids=["group", "share", "limit"],
    )
    def test_what_is_wrong_changes_nothing(self, driver, function, wrong):
        config = qos_regs.qetc_reg.new()
        config.tc_configuration[0].g = 1
        config.tc_configuration[7].assign(wrong)
        before = snapshot(function.hca)
        refused = driver.write_register(RegId.QETCR, bytes(config)).status
        assert (refused, snapshot(function.hca)) == (Status.BAD_PARAM_ERR, before)

    @pytest.mark.parametrize(
        ("register", "prm"),
        [(RegId.QTCT, qos_regs.qtct_reg), (RegId.QETCR, qos_regs.qetc_reg)],
        ids=["QTCT", "QETCR"],
    )
    def test_another_port(self, driver, register, prm):
        assert write(driver, register, prm, port_number=2) == Status.BAD_PARAM_ERR


class TestFlowControl:
    def pfcc(self, driver):
        found = driver.read_register(RegId.PFCC, port_regs.pfcc_reg, local_port=1)
        return found.pptx, found.pprx, found.pfctx, found.pfcrx

    def set(self, driver, **fields):
        return write(driver, RegId.PFCC, port_regs.pfcc_reg, local_port=1, **fields)

    def test_pfc_takes_the_place_of_pause_and_pause_that_of_pfc(self, driver):
        """port.c: mlx5_set_port_pfc, then mlx5_set_port_pause."""
        assert self.pfcc(driver) == (1, 1, 0, 0)
        masks = {"prio_mask_tx": 0xFF, "prio_mask_rx": 0xFF}
        assert self.set(driver, pfctx=8, pfcrx=8, **masks) == Status.OK
        assert self.pfcc(driver) == (0, 0, 8, 8)
        assert self.set(driver, pprx=1) == Status.OK
        assert self.pfcc(driver) == (0, 1, 8, 0)

    def test_masks_leave_the_rest_as_it_is(self, driver):
        keep = {"pptx_mask_n": 1, "pprx_mask_n": 1}
        self.set(driver)
        self.set(driver, pfctx=0xFF, prio_mask_tx=0x0F, pfcrx=0xFF, prio_mask_rx=1, **keep)
        assert self.pfcc(driver) == (0, 0, 0x0F, 1)
        self.set(driver, prio_mask_tx=2, **keep)
        assert self.pfcc(driver) == (0, 0, 0x0D, 1)

    def test_pause_frames_end_at_the_port_and_are_counted(self, driver, function):
        body = b"\0\1\x27\x10".ljust(46, b"\0")
        arrive(function.hca, Frame(CONTROL_ADDRESS + bytes(6) + MAC_CONTROL + body))
        group = port_counters.eth_802_3_cntrs_grp_data_layout
        assert counters(driver, CountersGroup.IEEE_802_3, group) == {
            "a_mac_control_frames_received_low": 1,
            "a_pause_mac_ctrl_frames_received_low": 1,
        }
        assert counters(driver, CountersGroup.PER_PRIORITY, PRIORITY, 7) == {
            "rx_pause_low": 1, "rx_pause_duration_low": 51, "rx_pause_transition_low": 1,
        }  # fmt: skip
        assert not function.hca.nic_vport.steering_discards

    def test_a_control_frame_for_all_is_counted_and_stops_nothing(self, driver, function):
        """As ethtool_std_stats.sh of the kernel's driver tests sends them."""
        body = b"\0\1\x27\x10".ljust(46, b"\0")
        arrive(function.hca, Frame(b"\xff" * 6 + bytes(6) + MAC_CONTROL + body))
        group = port_counters.eth_802_3_cntrs_grp_data_layout
        assert counters(driver, CountersGroup.IEEE_802_3, group) == {
            "a_mac_control_frames_received_low": 1, "a_unsupported_opcodes_received_low": 1,
        }  # fmt: skip
        assert not counters(driver, CountersGroup.PER_PRIORITY, PRIORITY, 7)
        assert not function.hca.nic_vport.steering_discards

    @pytest.mark.parametrize("receiver", [b"\xff" * 6, CONTROL_ADDRESS])
    def test_what_the_driver_sends_is_counted_by_its_type(self, driver, node, sq, receiver):
        """The same test: the frames of a packet socket leave as others do."""
        sq.send(receiver + bytes(6) + MAC_CONTROL + bytes(46))
        sq.send(receiver + bytes(6) + b"\x88\xb5" + bytes(46))
        node.settle()
        found = counters(
            driver, CountersGroup.IEEE_802_3, port_counters.eth_802_3_cntrs_grp_data_layout
        )
        assert found["a_mac_control_frames_transmitted_low"] == 1
        assert "a_pause_mac_ctrl_frames_transmitted_low" not in found


@pytest.mark.parametrize("register", [RegId.QCAM, RegId.QPTS, RegId.QPDPM, RegId.QTCT, RegId.QETCR])
class TestVirtualFunction:
    @pytest.fixture
    def model(self):
        return LINKS["connectx6dx-vf"][PortType.ETH]

    def test_the_port_is_the_physical_functions(self, driver, register):
        assert driver.write_register(register, bytes(144), op_mod=1).status == Status.BAD_PARAM_ERR
