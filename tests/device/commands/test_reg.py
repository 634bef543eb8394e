"""ACCESS_REG: each register that is there, and all that is refused (core/port.c)."""

import pytest

from emu.device.models import MODELS
from emu.driver.world.cable import set_link
from firmware_cmds.regs import ib_regs
from firmware_cmds.regs import reg as common
from firmware_cmds.regs.components import InfoType
from firmware_cmds.regs.reg import READ, WRITE
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.regs import CountersGroup, PortStatus, RegId
from layouts.enums.vport import CapMask1, PhysState, PortState
from layouts.regs import component_regs, nv_regs, port_regs, reg
from layouts.regs.port_counters import phys_layer_cntrs
from layouts.regs.resource_dump import SegmentType

REGISTERS = {**common.REGISTERS, **ib_regs.REGISTERS}
DESCRIPTION = b"guest HCA-1".ljust(64, b"\0")
IB, ETHERNET = 1, 4
UP, DOWN = PortStatus.UP, PortStatus.DOWN


def test_mtu_is_what_infiniband_allows(driver):
    pmtu = driver.read_register(RegId.PMTU, reg.pmtu_reg, local_port=1)
    assert (pmtu.max_mtu, pmtu.admin_mtu, pmtu.oper_mtu) == (4096, 4096, 4096)


@pytest.mark.parametrize("name", ["connectx5", "connectx6", "connectx7-vf"])
def test_link_is_the_models(cold, function, name):
    function.hca.model = model = MODELS[name]
    function.hca.port.proto_oper = model.ib_proto_oper
    ptys = cold.probe().read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=IB)
    assert (ptys.ib_link_width_oper, ptys.ib_proto_oper) == (4, model.ib_proto_oper)
    assert (ptys.ib_link_width_capability, ptys.ib_proto_admin) == (4, ptys.ib_proto_capability)
    assert model.ib_proto_oper <= ptys.ib_proto_capability < 2 * model.ib_proto_oper


def choose_speed(driver, speeds, proto=IB):
    ptys = reg.ptys_reg.new(local_port=1, proto_mask=proto, ib_proto_admin=speeds)
    return driver.write_register(RegId.PTYS, bytes(ptys.buf)).status


def test_speed_that_is_chosen(driver):
    """iPXE's golan.c: the slowest one while it boots, then all again."""
    sdr, everything = 1, 0x77
    for chosen, speeds, oper in (
        (sdr, sdr, sdr), (0x35, 0x35, 32), (0, everything, 64), (everything, everything, 64),
    ):  # fmt: skip
        assert choose_speed(driver, chosen) == Status.OK
        ptys = driver.read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=IB)
        assert (ptys.ib_proto_admin, ptys.ib_proto_oper) == (speeds, oper)


@pytest.mark.parametrize(("speeds", "proto"), [(0x80, IB), (0x100, IB), (1, ETHERNET)])
def test_speed_that_the_port_has_not(driver, speeds, proto):
    assert choose_speed(driver, speeds, proto) == Status.BAD_PARAM_ERR


def test_link_that_is_down_has_no_speed(driver, function):
    function.hca.port.set_link(up=False)
    ptys = driver.read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=IB)
    assert (ptys.ib_link_width_oper, ptys.ib_proto_oper) == (0, 0)
    assert ptys.ib_proto_capability
    paos = driver.read_register(RegId.PAOS, reg.paos_reg, local_port=1)
    assert (paos.admin_status, paos.oper_status) == (1, 2)


class TestPortThatIsDisabled:
    """PAOS. No driver of the kernel writes it on InfiniBand; rdma-core's over vfio does."""

    def admin(self, driver, status, ase=1):
        data = reg.paos_reg.new(local_port=1, admin_status=status, ase=ase)
        return driver.write_register(RegId.PAOS, bytes(data)).status

    def test_it_has_no_link(self, driver, function):
        eqn = driver.create_eq(events=[EventType.PORT_CHANGE])
        assert self.admin(driver, DOWN) == Status.OK
        paos = driver.read_register(RegId.PAOS, reg.paos_reg, local_port=1)
        assert (paos.admin_status, paos.oper_status) == (DOWN, DOWN)
        port = function.hca.ib
        assert (port.state, port.phys_state) == (PortState.DOWN, PhysState.DISABLED)
        set_link(function.hca, up=False)
        set_link(function.hca, up=True)
        assert self.admin(driver, UP) == Status.OK
        assert (port.state, port.phys_state) == (PortState.ACTIVE, PhysState.LINK_UP)
        changes = [entry.sub_type for entry in driver.eqs[eqn].drain()]
        assert changes == [PortChange.DOWN, PortChange.ACTIVE]
        assert port.link_downed == 1

    def test_the_next_driver_has_a_link(self, driver, function):
        self.admin(driver, DOWN)
        driver.must(Op.TEARDOWN_HCA)
        assert not function.hca.ib.is_up
        driver.must(Op.INIT_HCA)
        assert function.hca.ib.is_up

    @pytest.mark.parametrize(("status", "ase", "answer"), [(2, 0, 0), (4, 1, Status.BAD_PARAM_ERR)])
    def test_what_changes_nothing(self, driver, function, status, ase, answer):
        assert self.admin(driver, status, ase) == answer
        assert function.hca.ib.is_up


def test_no_ethernet_on_an_infiniband_port(driver):
    ptys = driver.read_register(RegId.PTYS, reg.ptys_reg, local_port=1, proto_mask=ETHERNET)
    assert (ptys.eth_proto_oper, ptys.ib_proto_oper) == (0, 0)


def test_port_is_up(driver):
    paos = driver.read_register(RegId.PAOS, reg.paos_reg, local_port=1)
    assert (paos.admin_status, paos.oper_status) == (1, 1)


def test_virtual_lanes_in_a_code_that_the_driver_knows(driver):
    pvlc = driver.read_register(RegId.PVLC, reg.pvlc_reg, local_port=1)
    assert pvlc.vl_hw_cap in (1, 2, 4, 8, 15)
    assert pvlc.vl_operational == pvlc.vl_hw_cap


def test_capability_mask_is_the_ports(driver):
    pcap = driver.read_register(RegId.PCAP, reg.pcap_reg, local_port=1)
    assert pcap.port_capability_mask[3] & CapMask1.SYS_IMAGE_GUID_SUP


def test_capability_bits_of_the_stack_can_be_written(driver, function):
    """The driver's mask comes in the first word, with the device's own bits in it."""
    before = function.hca.port.cap_mask1
    reg_data = reg.pcap_reg.new(port_capability_mask=[CapMask1.CM_SUP | 1 << 27, 0, 0, 0])
    assert driver.write_register(RegId.PCAP, bytes(reg_data)).status == Status.OK
    assert function.hca.port.cap_mask1 == before | CapMask1.CM_SUP
    assert driver.write_register(RegId.PCAP, bytes(reg.pcap_reg.size)).status == Status.OK
    assert function.hca.port.cap_mask1 == before


def port_counters(driver, grp, **fields):
    return driver.read_register(RegId.PPCNT, reg.ppcnt_reg, grp=grp, **fields).counter_set


def link_downed(driver, **fields):
    counters = port_counters(driver, CountersGroup.INFINIBAND_PORT, **fields)
    return reg.ib_port_cntrs_grp_data_layout.view(counters).link_downed_counter


def test_failures_of_the_link_are_counted_until_they_are_cleared(driver, function):
    assert link_downed(driver) == 0
    for up in (False, False, True, False):
        set_link(function.hca, up=up)
    assert link_downed(driver, clr=1) == 2
    assert link_downed(driver) == 0
    set_link(function.hca, up=True)
    set_link(function.hca, up=False)
    assert link_downed(driver) == 1
    physical = port_counters(driver, CountersGroup.PHYSICAL_LAYER)
    assert phys_layer_cntrs.view(physical).link_down_events == 1


@pytest.mark.parametrize("group", [0x0, 0x1, 0x2, 0x10])
def test_no_frames_are_counted(driver, group):
    """ethtool -S of an IPoIB interface wants to know (core/ipoib/ipoib.c: mlx5i_stats_grps)."""
    assert not any(port_counters(driver, group))


def test_counter_group_that_is_not_there(refused):
    data = bytes(reg.ppcnt_reg.new(grp=CountersGroup.PER_TRAFFIC_CLASS_CONGESTION))
    refused(
        Status.BAD_PARAM_ERR, Op.ACCESS_REG, op_mod=READ, register_id=RegId.PPCNT,
        extra=data, out_extra=len(data),
    )  # fmt: skip


def test_node_description_is_kept(driver):
    assert driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc.startswith(b"ConnectX-6, ")
    assert driver.write_register(RegId.NODE_DESC, DESCRIPTION).status == Status.OK
    assert driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc == DESCRIPTION


def test_endianness_can_be_written_only(driver, refused):
    assert driver.write_register(RegId.HOST_ENDIANNESS, bytes(16)).status == Status.OK
    refused(
        Status.BAD_PARAM_ERR, Op.ACCESS_REG, op_mod=READ, register_id=RegId.HOST_ENDIANNESS,
        extra=bytes(16), out_extra=16,
    )  # fmt: skip


NEEDED = {
    RegId.PTYS: {"proto_mask": IB},
    RegId.PPCNT: {"grp": CountersGroup.INFINIBAND_PORT},
    RegId.RESOURCE_DUMP: {"segment_type": SegmentType.MENU, "inline_dump": 1},
    RegId.MNVDA: {"configuration_item_header": {"type": 0x80}},
}
"""Registers that say nothing when they are asked with zeros."""
OF_THE_CLOCK = (RegId.MTUTC, RegId.MTPPS, RegId.MTPPSE)
"""Registers of a real-time clock and of pins, which an adapter has only when told so."""


def access(register, op_mod, size, room=None):
    given = REGISTERS[register].layout.new(**NEEDED[register]).buf if register in NEEDED else b""
    return {
        "op_mod": op_mod,
        "register_id": register,
        "extra": bytes(given).ljust(size, b"\0")[:size],
        "out_extra": size if room is None else room,
    }


@pytest.mark.parametrize(
    "register", [RegId.MPEGC, RegId.PPLM, RegId.MCC, RegId.DTOR, 0, 0xFFFF], ids=hex
)
@pytest.mark.parametrize("op_mod", [READ, WRITE])
def test_register_that_is_not_there(refused, register, op_mod):
    refused(Status.BAD_PARAM_ERR, Op.ACCESS_REG, **access(register, op_mod, 256))


@pytest.mark.parametrize("register", REGISTERS, ids=lambda register: RegId(register).name)
@pytest.mark.parametrize("op_mod", [READ, WRITE, 2, 0xFFFF])
def test_access_that_a_register_does_not_allow(driver, refused, register, op_mod):
    """Everything that is not declared is refused; what is declared works."""
    known = REGISTERS[register]
    fields = access(register, op_mod, known.layout.size)
    if {READ: known.read, WRITE: known.write}.get(op_mod) and register not in OF_THE_CLOCK:
        driver.must(Op.ACCESS_REG, **fields)
    else:
        refused(Status.BAD_PARAM_ERR, Op.ACCESS_REG, **fields)


REGISTERS_AND_ACCESSES = [
    (register, op_mod)
    for register, known in REGISTERS.items()
    for op_mod, there in ((READ, known.read), (WRITE, known.write))
    if there is not None and register not in OF_THE_CLOCK
]


@pytest.mark.parametrize(("register", "op_mod"), REGISTERS_AND_ACCESSES)
def test_front_of_a_register(driver, refused, register, op_mod):
    """Its index is all that a driver has to give, and it is told as much as it has room for."""
    size = REGISTERS[register].layout.size
    refused(Status.BAD_INP_LEN_ERR, Op.ACCESS_REG, **access(register, op_mod, 0, size))
    whole = driver.must(Op.ACCESS_REG, **access(register, op_mod, size)).raw
    for room in (4, size - 4):
        front = driver.must(Op.ACCESS_REG, **access(register, op_mod, size, room)).raw
        assert front == whole[: len(front)]
    for given in (4, size - 4):
        answer = driver.command(Op.ACCESS_REG, **access(register, op_mod, given, room=4))
        assert answer.status in (Status.OK, Status.BAD_PARAM_ERR)  # what is missing counts as zero


@pytest.mark.parametrize("register", REGISTERS, ids=lambda register: RegId(register).name)
def test_no_room_for_the_register(driver, refused, register):
    """A driver reads nothing for nothing; one that writes may leave it at that."""
    known = REGISTERS[register]
    if known.read:
        fields = access(register, READ, known.layout.size, room=0)
        refused(Status.BAD_OUTP_LEN_ERR, Op.ACCESS_REG, **fields)
    if known.write and register not in OF_THE_CLOCK:
        driver.must(Op.ACCESS_REG, **access(register, WRITE, known.layout.size, room=0))


def test_index_alone(driver):
    """Snabb's driver reads the state of the port by the register's first word."""
    index = bytes(REGISTERS[RegId.PAOS].layout.new(local_port=1).buf[:4])
    given = {"op_mod": READ, "register_id": RegId.PAOS, "out_extra": 16}
    short = driver.must(Op.ACCESS_REG, **given, extra=index)
    assert short.raw == driver.must(Op.ACCESS_REG, **given, extra=index.ljust(16, b"\0")).raw


PORT_REGISTERS = [register for register in REGISTERS if 0x5000 <= register < 0x6000]


@pytest.mark.parametrize("register", PORT_REGISTERS, ids=lambda register: RegId(register).name)
@pytest.mark.parametrize("port", [2, 255])
def test_port_that_is_not_there(refused, register, port):
    data = bytes(REGISTERS[register].layout.new(local_port=port).buf)
    refused(
        Status.BAD_PARAM_ERR, Op.ACCESS_REG, op_mod=READ, register_id=register,
        extra=data, out_extra=len(data),
    )  # fmt: skip


class TestFirmware:
    """What ``devlink dev info`` reads, in its order (core/fw.c: mlx5_fw_version_query)."""

    def component(self, driver, room, **fields):
        view = component_regs.mcqi_reg.new(**fields)
        return driver.command(
            Op.ACCESS_REG, op_mod=READ, register_id=RegId.MCQI, extra=bytes(view.buf),
            out_extra=component_regs.mcqi_reg.size + room,
        )  # fmt: skip

    def information(self, driver, info_type, known, **fields):
        size = known.size
        answer = self.component(driver, size, info_type=info_type, data_size=size, **fields)
        assert answer.status == Status.OK
        view, data = self.shown(answer)
        assert (view.info_size, view.data_size) == (size, size)
        return known.view(data)

    def shown(self, answer):
        """The register, and the data behind it."""
        whole = answer.raw[reg.access_register_out.size :]
        return component_regs.mcqi_reg.view(whole), whole[component_regs.mcqi_reg.size :]

    def test_management_registers_that_there_are(self, driver):
        mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
        mask = port_regs.mcam_access_reg.view(mcam.mng_access_reg_cap_mask)
        assert {name for name, value in mask.as_dict().items() if value} == {"mcqi", "mcqs", "mtmp"}
        features = port_regs.mcam_enhanced_features.view(mcam.mng_feature_cap_mask).as_dict()
        assert {name for name, value in features.items() if value} == {
            "pci_status_and_power", "pcie_performance_group", "pcie_outbound_stalled",
            "tx_overflow_buffer_pkt",
        }  # fmt: skip

    @pytest.mark.parametrize("group", [1, 2, 3, 0xFF])
    def test_no_others(self, driver, group):
        mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg, access_reg_group=group)
        assert not any(mcam.mng_access_reg_cap_mask)

    def test_no_reset_activates_other_firmware(self, driver):
        mfrl = driver.read_register(RegId.MFRL, component_regs.mfrl_reg)
        assert (mfrl.reset_level, mfrl.reset_type) == (0, 0)

    @pytest.mark.parametrize("item", [0x80, 0x81, 0x10A, 0x10B, 0x11D, 3 << 24 | 1 << 10 | 0x80])
    @pytest.mark.parametrize("mode", [0, 1, 2])
    def test_configuration(self, driver, item, mode):
        """What ``devlink dev param show`` reads on Linux 7.2: no SR-IOV, nothing chosen."""
        header = {"type": item, "access_mode": mode, "length": 8}
        mnvda = driver.read_register(
            RegId.MNVDA, nv_regs.mnvda_reg, configuration_item_header=header
        )
        assert mnvda.configuration_item_header.type == item
        assert not any(mnvda.configuration_item_data)

    @pytest.mark.parametrize("item", [0, 0x82, 3 << 24 | 0x81, 1 << 24 | 0x80, 0xFFFFFFFF])
    def test_no_such_configuration(self, driver, refused, item):
        view = nv_regs.mnvda_reg.new(configuration_item_header={"type": item})
        for op_mod in (READ, WRITE):
            refused(
                Status.BAD_PARAM_ERR, Op.ACCESS_REG, op_mod=op_mod, register_id=RegId.MNVDA,
                extra=bytes(view), out_extra=nv_regs.mnvda_reg.size,
            )  # fmt: skip

    def test_the_one_component_is_the_boot_image(self, driver):
        mcqs = driver.read_register(RegId.MCQS, component_regs.mcqs_reg)
        assert (mcqs.identifier, mcqs.last_index_flag) == (1, 1)
        assert mcqs.component_update_state == 0  # idle: nothing is pending

    @pytest.mark.parametrize("pending", [0, 1])
    def test_version_is_the_initialization_segments(self, driver, model, pending):
        version = self.information(
            driver, InfoType.VERSION, component_regs.mcqi_version, read_pending_component=pending
        )
        word, sub = driver.read32(0x000), driver.read32(0x004) & 0xFFFF
        major, minor = word & 0xFFFF, word >> 16
        assert version.version == major << 24 | minor << 16 | sub
        text = version.version_string[: version.version_string_length]
        assert text.decode() == model.firmware

    def test_what_can_be_asked(self, driver):
        known = self.information(driver, InfoType.CAPABILITIES, component_regs.mcqi_cap)
        assert known.supported_info_bitmask == 1 << InfoType.VERSION | 1 << InfoType.CAPABILITIES
        assert (known.max_component_size, known.rd_en) == (0, 0)

    def test_as_much_as_is_asked_for(self, driver):
        answer = self.component(driver, 64, info_type=InfoType.VERSION, data_size=8)
        view, data = self.shown(answer)
        assert view.info_size == component_regs.mcqi_version.size
        assert any(data[:8])
        assert not any(data[8:])

    @pytest.mark.parametrize(
        "fields", [{"component_index": 1}, {"info_type": 5}, {"info_type": 1, "offset": 4}]
    )
    def test_what_there_is_not(self, driver, fields):
        answer = self.component(driver, 124, data_size=124, **fields)
        assert answer.status == Status.BAD_PARAM_ERR

    def test_no_second_component(self, driver):
        view = component_regs.mcqs_reg.new(component_index=1)
        answer = driver.write_register(RegId.MCQS, bytes(view.buf), op_mod=READ)
        assert answer.status == Status.BAD_PARAM_ERR

    def test_no_room(self, driver):
        answer = self.component(driver, 64, info_type=InfoType.VERSION, data_size=124)
        assert answer.status == Status.BAD_OUTP_LEN_ERR

    @pytest.mark.parametrize("limits", [{"mcam_reg": 0}])
    @pytest.mark.parametrize("register", [RegId.MCAM, RegId.MCQS, RegId.MCQI, RegId.MNVDA])
    def test_virtual_functions_have_none_of_it(self, refused, register):
        assert not MODELS["connectx6-vf"].general["mcam_reg"]
        refused(Status.BAD_PARAM_ERR, Op.ACCESS_REG, **access(register, READ, 256))
