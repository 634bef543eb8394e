"""An Ethernet port as mlx5e asks for it: capabilities, vPort context, registers, link events."""

import pytest
from helpers.device.snapshot import snapshot

from emu.device.errors import syndrome_of
from emu.device.models import MODELS
from emu.device.port.eth.port import MAX_MTU
from emu.device.port.eth.traffic import BROADCAST
from emu.device.state.hca import HcaOptions
from emu.driver.world.cable import set_link
from firmware_cmds.regs import eth_regs
from firmware_cmds.regs.reg import READ, WRITE
from layouts.enums.caps import CapMode, CapType, PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.regs import CountersGroup, PortStatus, RegId
from layouts.enums.vport import NvprtListType
from layouts.function import caps
from layouts.function.eth_caps import flow_table_nic_cap, per_protocol_networking_offload_caps
from layouts.regs import module_regs, port_counters, port_regs, reg
from layouts.rings.eqe import eqe_port_state

GUID = 0x0002_C903_00AB_CD01
MAC = bytes.fromhex("0002c9abcd01")
EN = 4


@pytest.fixture
def base_model():
    return MODELS["connectx6dx"]


@pytest.fixture
def options():
    return HcaOptions(guid=GUID)


@pytest.fixture
def port(function):
    return function.hca.eth


@pytest.fixture
def vport(function):
    return function.hca.nic_vport


def groups(driver):
    """The capability groups that mlx5_core reads for an Ethernet port."""
    for group, prm in (
        (CapType.ETHERNET_OFFLOADS, per_protocol_networking_offload_caps),
        (CapType.FLOW_TABLE, flow_table_nic_cap),
    ):
        for mode in CapMode:
            answer = driver.must(Op.QUERY_HCA_CAP, op_mod=group << 1 | mode)
            yield prm.view(answer.capability)


def test_capabilities_of_the_group(driver):
    offloads, offloads_now, tables, tables_now = groups(driver)
    assert (offloads.csum_cap, offloads.vlan_cap, offloads.wqe_vlan_insert) == (1, 1, 1)
    assert tables.flow_table_properties_nic_receive.max_ft_level >= 59
    assert bytes(offloads) == bytes(offloads_now)
    assert bytes(tables) == bytes(tables_now)
    general = driver.must(Op.QUERY_HCA_CAP, op_mod=1)
    assert caps.cmd_hca_cap.view(general.capability).port_type == PortType.ETH


class TestVport:
    """NIC vPort context (core/vport.c)."""

    def context(self, driver, kind=NvprtListType.UC, room=0):
        answer = driver.must(Op.QUERY_NIC_VPORT_CONTEXT, allowed_list_type=kind, out_extra=room * 8)
        return answer.nic_vport_context

    def modify(self, driver, field, entries=(), **context):
        return driver.command(
            Op.MODIFY_NIC_VPORT_CONTEXT,
            field_select={field: 1},
            nic_vport_context={**context},
            extra=b"".join(entry.to_bytes(8, "big") for entry in entries),
        )

    def lists(self, driver, kind, entries):
        return self.modify(
            driver, "addresses_list", entries,
            allowed_list_type=kind, allowed_list_size=len(entries),
        )  # fmt: skip

    def test_address_and_guids(self, driver):
        context = self.context(driver)
        assert bytes(context.permanent_address)[2:] == MAC
        assert (context.node_guid, context.port_guid, context.system_image_guid) == (GUID,) * 3
        assert (context.roce_en, context.mtu, context.sd_group) == (0, 0, 0)

    def test_mtu(self, driver, vport):
        assert self.modify(driver, "mtu", mtu=1522).status == Status.OK
        assert self.context(driver).mtu == 1522
        assert vport.oper_mtu == 1522
        assert self.modify(driver, "mtu", mtu=MAX_MTU + 1).status == Status.BAD_PARAM_ERR
        assert self.context(driver).mtu == 1522

    def test_promiscuity(self, driver, vport):
        self.modify(driver, "promisc", promisc_all=1, promisc_uc=1)
        context = self.context(driver)
        assert (context.promisc_uc, context.promisc_mc, context.promisc_all) == (1, 0, 1)
        self.modify(driver, "mtu", mtu=1522)
        assert vport.promisc_all, "a field that is not selected stays"

    def test_what_is_not_chosen_is_not_looked_at(self, driver):
        self.lists(driver, NvprtListType.UC, [0x02_00_00_00_00_07])
        before = bytes(self.context(driver, room=1))
        wrong = {"mtu": MAX_MTU + 1, "roce_en": 1, "allowed_list_size": 200}
        assert self.modify(driver, "promisc", **wrong).status == Status.OK
        assert bytes(self.context(driver, room=1)) == before

    @pytest.mark.parametrize("limits", [{"roce": 0}])
    def test_a_port_without_roce(self, driver):
        assert self.modify(driver, "roce_en", roce_en=1).status == Status.BAD_PARAM_ERR
        assert self.modify(driver, "roce_en", roce_en=0).status == Status.OK
        assert self.modify(driver, "promisc", roce_en=1).status == Status.OK
        assert self.context(driver).roce_en == 0

    @pytest.mark.parametrize(
        ("kind", "entries"),
        [
            (NvprtListType.UC, [0x02_00_00_00_00_07, 1]),
            (NvprtListType.MC, [0xFFFF_FFFF_FFFF, 0x3333_0000_0001]),
            (NvprtListType.VLAN, [0, 7, 4095]),
        ],
    )
    def test_lists(self, driver, kind, entries):
        assert self.lists(driver, kind, entries).status == Status.OK
        context = self.context(driver, kind, room=len(entries) + 1)
        assert context.allowed_list_size == len(entries)
        assert list(context.current_uc_mac_address) == [*entries, 0]
        assert self.context(driver, kind).allowed_list_size == len(entries), "without room"
        self.lists(driver, kind, [])
        assert self.context(driver, kind).allowed_list_size == 0

    def test_wire_hears_of_other_addresses(self, driver, function):
        heard = []
        function.hca.switch = type(
            "Ear", (), {"vport_changed": lambda self, hca: heard.append(1)}
        )()
        self.lists(driver, NvprtListType.UC, [0x02_00_00_00_00_07])
        self.lists(driver, NvprtListType.UC, [0x02_00_00_00_00_07])
        assert heard == [1]

    @pytest.mark.parametrize(
        ("status", "context", "entries"),
        [
            (Status.BAD_PARAM_ERR, {"allowed_list_type": 3}, ()),
            (Status.LIM_ERR, {"allowed_list_size": 129}, [2] * 129),
            (Status.BAD_INP_LEN_ERR, {"allowed_list_size": 2}, [2]),
            (Status.BAD_PARAM_ERR, {"allowed_list_size": 1}, [1 << 40]),
        ],
    )
    def test_bad_lists(self, refused, status, context, entries):
        refused(
            status, Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"addresses_list": 1},
            nic_vport_context=context, extra=b"".join(one.to_bytes(8, "big") for one in entries),
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("field", "context"),
        [
            ("affiliation", {}),
            ("node_guid", {"node_guid": 5}),
            ("port_guid", {"port_guid": 5}),
            ("min_inline", {}),
            ("change_event", {}),
            ("permanent_address", {}),
            ("permanent_address", {"permanent_address": {"mac_addr_47_32": 0x0100}}),
        ],
    )
    def test_what_is_not_settable(self, refused, field, context):
        refused(
            Status.BAD_PARAM_ERR, Op.MODIFY_NIC_VPORT_CONTEXT, field_select={field: 1},
            nic_vport_context=context,
        )  # fmt: skip

    @pytest.mark.parametrize("name", ["disable_uc_local_lb", "disable_mc_local_lb"])
    def test_local_loopback_is_disabled_by_its_own_bit(self, driver, name):
        """core/vport.c: mlx5_nic_vport_update_local_lb and mlx5_nic_vport_query_local_lb."""
        both = {"disable_uc_local_lb": 1, "disable_mc_local_lb": 1}

        def found():
            context = driver.must(Op.QUERY_NIC_VPORT_CONTEXT).nic_vport_context
            return {each for each in both if getattr(context, each)}

        def select(**context):
            driver.must(
                Op.MODIFY_NIC_VPORT_CONTEXT, field_select={name: 1}, nic_vport_context=context
            )

        assert found() == set()
        select(**both)
        assert found() == {name}
        select()
        assert found() == set()

    def test_list_that_does_not_exist(self, refused):
        refused(Status.BAD_PARAM_ERR, Op.QUERY_NIC_VPORT_CONTEXT, allowed_list_type=5)

    def test_state_follows_the_driver(self, driver):
        for admin, state in ((0, 0), (2, 1), (0, 0), (1, 1)):
            driver.must(Op.MODIFY_VPORT_STATE, admin_state=admin)
            assert driver.must(Op.QUERY_VPORT_STATE).state == state

    @pytest.mark.parametrize(("op_mod", "admin"), [(1, 1), (2, 1), (0, 3)])
    def test_states_that_there_are_not(self, refused, op_mod, admin):
        refused(Status.BAD_PARAM_ERR, Op.MODIFY_VPORT_STATE, op_mod=op_mod, admin_state=admin)

    def test_no_embedded_switch(self, refused):
        refused(Status.BAD_PARAM_ERR, Op.QUERY_VPORT_STATE, op_mod=1)

    def test_counters(self, driver, vport):
        vport.sent.add(BROADCAST + bytes(54))
        vport.received.add(MAC + bytes(1000))
        out = driver.must(Op.QUERY_VPORT_COUNTER, clear=1)
        assert (out.transmitted_eth_broadcast.packets, out.transmitted_eth_broadcast.octets) == (
            1,
            60,
        )
        assert (out.received_eth_unicast.packets, out.received_eth_unicast.octets) == (1, 1006)
        assert driver.must(Op.QUERY_VPORT_COUNTER).received_eth_unicast.packets == 0


class TestLink:
    """PAOS, and the events that mlx5e waits for."""

    def admin(self, driver, status, ase=1):
        data = reg.paos_reg.new(local_port=1, admin_status=status, ase=ase)
        answer = driver.write_register(RegId.PAOS, bytes(data))
        return reg.paos_reg.view(answer.raw[reg.access_register_out.size :])

    def events(self, driver):
        eqn = driver.create_eq(events=[EventType.PORT_CHANGE])
        return lambda: [
            (PortChange(entry.sub_type), eqe_port_state.view(entry.data).port.port_num)
            for entry in driver.eqs[eqn].drain()
        ]

    def test_up_and_down_are_events(self, driver):
        events = self.events(driver)
        down = self.admin(driver, PortStatus.DOWN)
        assert (down.admin_status, down.oper_status) == (PortStatus.DOWN, PortStatus.DOWN)
        assert driver.must(Op.QUERY_VPORT_STATE).state == 0
        assert events() == [(PortChange.DOWN, 1)]
        self.admin(driver, PortStatus.DOWN)
        assert events() == []
        assert self.admin(driver, PortStatus.UP).oper_status == PortStatus.UP
        assert driver.must(Op.QUERY_VPORT_STATE).state == 1
        assert events() == [(PortChange.ACTIVE, 1)]

    def test_no_change_without_ase(self, driver, port):
        self.admin(driver, PortStatus.DOWN, ase=0)
        assert port.admin_up

    def test_cable(self, driver, function):
        """A cable that is plugged in while the driver has the port down is there afterwards."""
        events = self.events(driver)
        set_link(function.hca, up=False)
        assert events() == [(PortChange.DOWN, 1)]
        self.admin(driver, PortStatus.DOWN)
        set_link(function.hca, up=True)
        assert events() == []
        self.admin(driver, PortStatus.UP)
        assert events() == [(PortChange.ACTIVE, 1)]

    def test_unknown_status(self, driver, port):
        data = bytes(reg.paos_reg.new(local_port=1, admin_status=4, ase=1))
        assert driver.write_register(RegId.PAOS, data).status == Status.BAD_PARAM_ERR
        assert port.admin_up

    def test_reset_enables_the_port(self, driver, function):
        self.admin(driver, PortStatus.DOWN)
        function.reset()
        assert function.hca.nic_vport.is_up


class TestRegisters:
    def test_mtu(self, driver, vport):
        write = reg.pmtu_reg.new(local_port=1, admin_mtu=9022)
        assert driver.write_register(RegId.PMTU, bytes(write)).status == Status.OK
        pmtu = driver.read_register(RegId.PMTU, reg.pmtu_reg, local_port=1)
        assert (pmtu.max_mtu, pmtu.admin_mtu, pmtu.oper_mtu) == (MAX_MTU, 9022, 9022)
        assert vport.oper_mtu == 9022

    @pytest.mark.parametrize("mtu", [0, 63, MAX_MTU + 1, 0xFFFF])
    def test_mtu_out_of_range(self, driver, vport, mtu):
        write = bytes(reg.pmtu_reg.new(local_port=1, admin_mtu=mtu))
        refused = driver.write_register(RegId.PMTU, write)
        assert refused.status == Status.BAD_PARAM_ERR
        assert refused.syndrome == syndrome_of("MTU below 64, or above the port's maximum")
        assert vport.oper_mtu == 1522

    def test_pause(self, driver):
        write = port_regs.pfcc_reg.new(local_port=1, pptx=1, pprx=1)
        driver.write_register(RegId.PFCC, bytes(write))
        masked = port_regs.pfcc_reg.new(local_port=1, pptx_mask_n=1, pprx=0)
        driver.write_register(RegId.PFCC, bytes(masked))
        pfcc = driver.read_register(RegId.PFCC, port_regs.pfcc_reg, local_port=1)
        assert (pfcc.pptx, pfcc.pprx) == (1, 0)

    def test_flow_control_by_the_front_of_the_register(self, driver):
        """Snabb's driver gives 16 of its 32 bytes: the rest counts as zero."""
        front = bytes(port_regs.pfcc_reg.new(local_port=1, pptx=1, pprx=1))[:16]
        assert driver.write_register(RegId.PFCC, front).status == Status.OK
        pfcc = driver.read_register(RegId.PFCC, port_regs.pfcc_reg, local_port=1)
        assert (pfcc.pptx, pfcc.pprx) == (1, 1)

    def module(self, driver, start, size, **fields):
        return driver.read_register(
            RegId.MCIA, module_regs.mcia_reg,
            **{"device_address": start, "size": size, "i2c_device_address": 0x50, **fields},
        )  # fmt: skip

    def test_module(self, driver):
        """Identifier and check bytes, as ethtool -m verifies them (SFF-8636 6.3)."""
        page = b"".join(self.module(driver, at, 48).dwords[:48] for at in range(0, 240, 48))
        assert page[0] == page[128] == 0x11
        assert page[148:164] == b"mlx5emu".ljust(16)
        assert page[191] == sum(page[128:191]) & 0xFF
        assert page[223] == sum(page[192:223]) & 0xFF
        upper = self.module(driver, 128, 48, page_number=1)
        assert (upper.status, any(upper.dwords)) == (0, False)

    def test_module_as_linux_6_1_reads_it(self, driver):
        """Its mcia_reg has 12 words of data instead of 32."""
        read = bytes(module_regs.mcia_reg.new(i2c_device_address=0x50, size=48))[:64]
        answer = driver.write_register(RegId.MCIA, read, op_mod=READ)
        assert answer.status == Status.OK
        assert len(answer.raw) == reg.access_register_out.size + 64
        assert answer.raw[reg.access_register_out.size + 16] == 0x11

    @pytest.mark.parametrize(
        "fields", [{"module": 1}, {"i2c_device_address": 0x40}, {"device_address": 250}]
    )
    def test_no_such_module(self, driver, fields):
        mcia = self.module(driver, 0, 48, **fields)
        assert mcia.status
        assert not any(mcia.dwords)

    def test_whether_a_module_is_plugged_in(self, driver, function):
        """illumos' mlxcx asks by PMAOS; the values are those of the event about it."""
        for up, status in ((True, 1), (False, 2), (True, 1)):
            set_link(function.hca, up=up)
            pmaos = driver.read_register(RegId.PMAOS, module_regs.pmaos_reg)
            assert (pmaos.admin_status, pmaos.oper_status) == (1, status)

    def test_module_state_is_only_read(self, driver, refused):
        other = bytes(module_regs.pmaos_reg.new(module=1))
        state = bytes(module_regs.pmaos_reg.new(admin_status=2, ase=1))
        for data, op_mod in ((other, READ), (state, WRITE)):
            refused(
                Status.BAD_PARAM_ERR, Op.ACCESS_REG, op_mod=op_mod, register_id=RegId.PMAOS,
                extra=data, out_extra=16,
            )  # fmt: skip

    def beacon(self, driver, seconds):
        """Let the LED blink; how long it says it will."""
        request = bytes(port_regs.mlcr_reg.new(local_port=1, beacon_duration=seconds))
        assert driver.write_register(RegId.MLCR, request).status == Status.OK
        return self.remaining(driver)

    def remaining(self, driver):
        return driver.read_register(RegId.MLCR, port_regs.mlcr_reg, local_port=1).beacon_remain

    def test_led(self, driver, clock):
        """For a time, for ever (ethtool --identify), and no more."""
        assert self.remaining(driver) == 0
        assert self.beacon(driver, 30) == 30
        clock.advance(29_500_000_000)
        assert self.remaining(driver) == 1
        clock.advance(500_000_000)
        assert self.remaining(driver) == 0
        assert self.beacon(driver, 0xFFFF) == 0xFFFF
        clock.advance(10**15)
        assert self.remaining(driver) == 0xFFFF
        assert self.beacon(driver, 0xFFFE) == 0xFFFE
        assert self.beacon(driver, 0) == 0

    def test_port_registers(self, driver):
        """PCAM tells of error correction and buffers; other groups have nothing."""
        pcam = driver.read_register(RegId.PCAM, port_regs.pcam_reg)
        registers = port_regs.pcam_regs_5000_to_507f.view(pcam.port_access_reg_cap_mask)
        assert (registers.pplm, registers.ppcnt, registers.pbmc) == (1, 1, 1)
        features = port_regs.pcam_enhanced_features.view(pcam.feature_cap_mask)
        assert features.ptys_connector_type
        other = driver.read_register(
            RegId.PCAM, port_regs.pcam_reg, feature_group=1, access_reg_group=1
        )
        assert not any(other.port_access_reg_cap_mask + other.feature_cap_mask)

    def counters(self, driver, group, prm, **fields):
        ppcnt = driver.read_register(RegId.PPCNT, reg.ppcnt_reg, local_port=1, grp=group, **fields)
        return {
            name: value for name, value in prm.view(ppcnt.counter_set).as_dict().items() if value
        }

    def test_counters(self, driver, port, vport):
        """Octets of the physical port include the frame check sequence."""
        vport.sent.add(BROADCAST + bytes(54))
        vport.received.add(MAC + bytes(1000), packets=2, octets=(1 << 32) - 8)
        vport.received.discards += 3
        group = port_counters.eth_802_3_cntrs_grp_data_layout
        assert self.counters(driver, CountersGroup.IEEE_802_3, group) == {
            "a_frames_transmitted_ok_low": 1,
            "a_octets_transmitted_ok_low": 64,
            "a_broadcast_frames_xmitted_ok_low": 1,
            "a_frames_received_ok_low": 2,
            "a_octets_received_ok_high": 1,
        }
        group = port_counters.eth_2863_cntrs_grp_data_layout
        found = self.counters(driver, CountersGroup.RFC_2863, group)
        assert (found["if_in_ucast_pkts_low"], found["if_in_discards_low"]) == (2, 3)
        group = port_counters.eth_2819_cntrs_grp_data_layout
        found = self.counters(driver, CountersGroup.RFC_2819, group)
        assert found["ether_stats_drop_events_low"] == 3
        group = port_counters.eth_per_prio_grp_data_layout
        assert self.counters(driver, CountersGroup.PER_PRIORITY, group)["rx_frames_low"] == 2
        assert self.counters(driver, CountersGroup.PER_PRIORITY, group, prio_tc=1) == {}

    def test_each_group_is_cleared_alone(self, driver, port, vport):
        port.set_link(up=False)
        vport.sent.add(BROADCAST + bytes(54))
        physical = (CountersGroup.PHYSICAL_LAYER, port_counters.phys_layer_cntrs)
        assert self.counters(driver, *physical, clr=1) == {"link_down_events": 1}
        assert self.counters(driver, *physical) == {}
        group = port_counters.eth_802_3_cntrs_grp_data_layout
        assert self.counters(driver, CountersGroup.IEEE_802_3, group)

    def test_priorities(self, driver, vport):
        """The VLAN tag's; everything without one has priority 0. Each is cleared alone."""
        group = (CountersGroup.PER_PRIORITY, port_counters.eth_per_prio_grp_data_layout)
        for tag in (b"\x81\x00\xa0\x07", b"\x81\x00\x00\x07", b"\x88\xa8\xa0\x07", b"\x81\x00"):
            vport.received.add(MAC + MAC + tag.ljust(48, b"\0"))
        vport.received.add(MAC + MAC + b"\x81\x00")
        vport.sent.add(MAC + MAC + b"\x81\x00\xff\xff", packets=3, octets=3000)
        vport.received.discards += 1
        found = self.counters(driver, *group)
        assert (found["rx_frames_low"], found["rx_discards_low"]) == (4, 1)
        assert "tx_frames_low" not in found
        found = self.counters(driver, *group, prio_tc=5, clr=1)
        assert found == {"rx_frames_low": 1, "rx_octets_low": 64}
        assert self.counters(driver, *group, prio_tc=7)["tx_frames_low"] == 3
        assert self.counters(driver, *group, prio_tc=5) == {}

    def test_sizes_of_roce(self, driver, function, port):
        """Frames count by size whoever has sent them, also those that messages stand for."""
        function.hca.link.count_received(3, 3 * 1100)
        function.hca.link.count_received(1, 70, multicast=True)
        found = self.counters(
            driver, CountersGroup.RFC_2819, port_counters.eth_2819_cntrs_grp_data_layout
        )
        assert found["ether_stats_pkts1024to1518octets_low"] == 3
        assert found["ether_stats_pkts65to127octets_low"] == 1
        assert found["ether_stats_pkts_low"] == 4

    def test_counters_of_infiniband(self, driver, port):
        """Those of sysfs on a RoCE port; they are shorter than others, and stop."""
        group = (CountersGroup.INFINIBAND_PORT, reg.ib_port_cntrs_grp_data_layout)
        assert self.counters(driver, *group) == {}
        for _ in range(300):
            port.set_link(up=False)
            port.set_link(up=True)
        assert self.counters(driver, *group, clr=1) == {"link_downed_counter": 255}
        assert self.counters(driver, *group) == {}

    @pytest.mark.parametrize("fields", [{"grp": 0x21}, {"grp": 0x3F}, {"grp": 0x10, "prio_tc": 8}])
    def test_no_such_counters(self, driver, fields):
        read = bytes(reg.ppcnt_reg.new(local_port=1, **fields))
        assert driver.write_register(RegId.PPCNT, read, op_mod=READ).status == Status.BAD_PARAM_ERR

    @pytest.mark.parametrize("register", eth_regs.REGISTERS, ids=lambda one: RegId(one).name)
    @pytest.mark.parametrize("op_mod", [READ, WRITE])
    def test_all_ones_change_nothing_or_are_taken(self, driver, function, register, op_mod):
        """Whatever is written, the answer is a status, and what is refused has changed nothing."""
        layout = eth_regs.REGISTERS[register].layout
        for port in (1, 0xFF):
            view = layout.view(bytearray(b"\xff" * layout.size))
            if hasattr(view, "local_port"):
                view.local_port = port
            before = snapshot(function.hca)
            answer = driver.write_register(register, bytes(view), op_mod=op_mod)
            if answer.status != Status.OK:
                assert snapshot(function.hca) == before

    @pytest.mark.parametrize("register", [RegId.PCAP, RegId.PVLC, RegId.PELC])
    def test_registers_of_other_ports(self, driver, register):
        assert (
            driver.write_register(register, bytes(64), op_mod=READ).status == Status.BAD_PARAM_ERR
        )


@pytest.mark.parametrize(
    "op",
    [
        Op.QUERY_HCA_VPORT_CONTEXT,
        Op.MODIFY_HCA_VPORT_CONTEXT,
        Op.QUERY_HCA_VPORT_GID,
        Op.MAD_IFC,
    ],
)
def test_not_an_infiniband_port(refused, op):
    refused(Status.BAD_OP_ERR, op, out_extra=16 if op is Op.QUERY_HCA_VPORT_GID else 0)


def test_node_description(driver, model):
    """mlx5_ib fails to load without (ib/main.c: init_node_data)."""
    shown = driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc
    assert shown.startswith(model.title.encode())
    assert driver.write_register(RegId.NODE_DESC, b"me".ljust(64, b"\0")).status == Status.OK
    assert driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc.rstrip(b"\0") == b"me"


def test_one_partition_key(driver):
    """mlx5_ib asks an Ethernet port as well (ib_query_pkey)."""
    assert driver.must(Op.QUERY_HCA_VPORT_PKEY, out_extra=4).pkey[0].pkey == 0xFFFF


class TestInfiniband:
    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    @pytest.mark.parametrize(
        "op", [Op.QUERY_NIC_VPORT_CONTEXT, Op.MODIFY_NIC_VPORT_CONTEXT, Op.MODIFY_VPORT_STATE]
    )
    def test_not_an_ethernet_port(self, refused, op):
        refused(Status.BAD_OP_ERR, op)
