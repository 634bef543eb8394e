"""Bringing the function up and down: states, ISSI, capabilities, adapter, teardown."""

import pytest
from helpers.device.snapshot import snapshot

from emu.device.cmdif.registry import COMMANDS
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions, HcaState
from emu.driver.verbs.parts import Parts
from emu.driver.world.cable import set_link
from emu.driver.world.interrupts import IrqList
from firmware_cmds import TABLE
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import DeliveryStat, Op, Status
from layouts.enums.hca import NicInterface, TeardownProfile
from layouts.enums.qp import QpState
from layouts.function import caps

GENERAL = CapType.GENERAL << 1
CMDQ_ADDR_L, CMD_DBELL = 0x14, 0x18


def general(driver, mode=CapMode.CUR):
    """The general capabilities as the driver reads them."""
    answer = driver.must(Op.QUERY_HCA_CAP, op_mod=GENERAL | mode)
    return caps.cmd_hca_cap.view(bytearray(answer.capability))


def state(driver):
    return driver.bar.function.hca.state


@pytest.fixture
def enabled(cold):
    """A driver that has enabled the function and not initialized it."""
    cold.attach()
    cold.must(Op.ENABLE_HCA)
    return cold


@pytest.mark.parametrize(
    ("reached", "command"),
    [
        pytest.param(reached, command, id=f"{command.name}-while-{reached.name}")
        for command in COMMANDS.values()
        for reached in HcaState
        if reached < command.needs
    ],
)
def test_command_before_its_time(cold, reached, command):
    """A command is refused as BAD_SYS_STATE until the function is far enough."""
    cold.attach()
    if reached >= HcaState.ENABLED:
        cold.must(Op.ENABLE_HCA)
    assert cold.command(command.op).status == Status.BAD_SYS_STATE_ERR
    assert state(cold) is reached


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_command_that_is_too_short(driver, command):
    """A truncated input and a truncated output are told apart, and neither command runs."""
    data = bytes(command.layout_in.new(opcode=command.op).buf)
    delivery, raw = driver.execute(data[: command.min_in - 4], command.layout_out.size)
    assert (delivery, raw[0]) == (DeliveryStat.OK, Status.BAD_INP_LEN_ERR)
    delivery, raw = driver.execute(data, command.min_out - 4)
    assert (delivery, raw[0]) == (DeliveryStat.OK, Status.BAD_OUTP_LEN_ERR)
    assert raw[8:] == bytes(len(raw) - 8)
    assert state(driver) is HcaState.INITIALIZED


def test_enabling_again_after_init_allows_it_again(enabled):
    """A crash kernel goes on with SET_HCA_CAP and INIT_HCA, which INITIALIZED would refuse."""
    enabled.must(Op.ENABLE_HCA)
    assert state(enabled) is HcaState.ENABLED
    enabled.must(Op.INIT_HCA)
    enabled.must(Op.ENABLE_HCA)
    assert state(enabled) is HcaState.ENABLED
    enabled.must(Op.INIT_HCA)


def test_initializing_twice_keeps_the_objects(driver, refused):
    pd = driver.alloc_pd()
    refused(Status.BAD_SYS_STATE_ERR, Op.INIT_HCA)
    driver.must(Op.DEALLOC_PD, pd=pd)


def test_disable_wants_teardown_first(driver, refused):
    refused(Status.BAD_SYS_STATE_ERR, Op.DISABLE_HCA)
    driver.must(Op.TEARDOWN_HCA)
    refused(Status.BAD_SYS_STATE_ERR, Op.TEARDOWN_HCA)
    driver.must(Op.DISABLE_HCA)
    refused(Status.BAD_SYS_STATE_ERR, Op.QUERY_ISSI)


@pytest.mark.parametrize("op", [Op.ENABLE_HCA, Op.DISABLE_HCA])
def test_another_functions_state_is_not_ours(refused, op):
    refused(Status.BAD_PARAM_ERR, op, function_id=1)


@pytest.mark.parametrize("profile", [3, 7, 0xFFFF])
def test_teardown_profile_that_is_none(refused, profile):
    refused(Status.BAD_PARAM_ERR, Op.TEARDOWN_HCA, profile=profile)


def fast_teardown(driver):
    """As core/fw.c: mlx5_cmd_fast_teardown_hca; the address stays in the register."""
    profile = TeardownProfile.PREPARE_FAST_TEARDOWN
    assert driver.must(Op.TEARDOWN_HCA, profile=profile).state == 0
    low = driver.read32(CMDQ_ADDR_L) & 0xFFFFF000
    driver.write32(CMDQ_ADDR_L, low | NicInterface.DISABLED << 8)
    assert driver.read32(CMDQ_ADDR_L) >> 8 & 7 == NicInterface.DISABLED


def force_teardown(driver):
    """As core/fw.c: mlx5_cmd_force_teardown_hca, which polls whatever the driver did before."""
    assert driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.FORCE_CLOSE).state == 0


@pytest.fixture(params=[fast_teardown, force_teardown])
def hurried(request):
    """A driver's way to stop the device without destroying anything."""
    return request.param


def test_driver_that_has_no_time_is_told_so_by_capabilities(driver):
    told = general(driver)
    assert (told.fast_teardown, told.force_teardown) == (1, 1)


def test_preparing_changes_nothing(driver, function):
    """Until nic_interface is written the driver may still fall back to another teardown."""
    driver.alloc_pd()
    before = snapshot(function.hca)
    driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.PREPARE_FAST_TEARDOWN)
    assert snapshot(function.hca) == before


@pytest.mark.parametrize("options", [HcaOptions(guid=1, boot_pages=2)])
def test_hurried_teardown_leaves_nothing_behind(driver, function, hurried, caplog):
    """No object, and no page of the driver's."""
    Parts(driver).make(QpState.RTS)
    driver.create_mkey(driver.alloc_pd())
    assert len(function.hca.fwpages) == 4
    hurried(driver)
    assert not any(function.hca.tables)
    assert len(function.hca.fwpages) == 0
    assert function.hca.state is HcaState.DISABLED
    assert "left behind" not in caplog.text
    assert "shut down" in caplog.text


def test_after_a_hurried_teardown_nothing_is_touched(
    driver, function, clock, hurried, irqs, caplog
):
    """Not by a doorbell that rang before it, by one that comes later, or by a timer."""
    parts = Parts(driver)
    ringing, flushing = parts.make(QpState.RTS), parts.make(QpState.ERR)
    queue = driver.use_events()
    queue.arm()
    for qpn in (ringing, flushing):
        record = function.hca.qps.get(qpn).ctx.dbr_addr
        driver.memory.write(record, bytes.fromhex("0000000100000001"))
    driver.bar.write(driver.uar * 4096 + 0x800, (ringing << 8).to_bytes(8, "big"))
    hurried(driver)
    irqs.fired.clear()
    before = driver.memory.contents()
    queue.arm()
    driver.bar.write(driver.uar * 4096 + 0x800, (ringing << 8).to_bytes(8, "big"))
    set_link(function.hca, up=False)
    clock.advance(1_000_000_000)
    driver.bar.settle()
    assert driver.memory.contents() == before
    assert irqs.fired == []
    if hurried is fast_teardown:  # mlx5_ib rings once more, and nobody is to be alarmed
        assert "doorbell" not in caplog.text


def test_disabled_interface_serves_no_command(driver):
    """Not even one that was rung for before."""
    blocks = driver.submit(Op.QUERY_ADAPTER.to_bytes(2, "big") + bytes(14), 272)
    driver.write32(CMD_DBELL, 1)
    before = driver.memory.contents()
    driver.write32(CMDQ_ADDR_L, driver.queue & 0xFFFFF000 | NicInterface.DISABLED << 8)
    driver.ring(1)
    assert driver.memory.contents() == before
    driver.attach()
    driver.ring(1)
    _, answer = driver.collect(blocks, 272)
    assert answer[0] == Status.BAD_SYS_STATE_ERR


def test_next_kernel_finds_a_fresh_device(driver, function, hurried):
    """kexec: the old kernel has hurried, the new one probes without a reset."""
    for _ in range(3):
        driver.create_cq(driver.create_eq())
        hurried(driver)
        driver.eqs.clear()
        driver.probe()
    driver.must(Op.DEALLOC_PD, pd=driver.alloc_pd())


def must_with_doorbell(driver, op, qpn):
    """Run a command, and ring a queue pair between the command's doorbell and its run."""
    chain = driver.submit(op.to_bytes(2, "big").ljust(16, b"\0"), 16)
    driver.write32(0x018, 1)
    driver.bar.write(driver.uar * 4096 + 0x800, (qpn << 8).to_bytes(8, "big"))
    driver.bar.settle()
    delivery, answer = driver.collect(chain, 16)
    assert (delivery, answer[0]) == (DeliveryStat.OK, Status.OK)


@pytest.mark.parametrize("options", [HcaOptions(guid=1, boot_pages=2)])
def test_crash_kernel_finds_a_fresh_device(driver, function, clock):
    """kdump: the old kernel has stopped in mid-work, the new one probes without a reset.

    Its memory is not the old kernel's, so no old page may be given back to it, and no old queue
    may write any more.
    """
    parts = Parts(driver)
    ringing = parts.make(QpState.RTS)
    record = function.hca.qps.get(ringing).ctx.dbr_addr
    driver.memory.write(record, bytes.fromhex("0000000100000001"))
    driver.create_mkey(driver.alloc_pd())
    driver.use_events()
    completions = function.hca.cqs.get(parts.cqn).buffer
    before = completions.read(0, completions.length)
    driver.irqs.fired.clear()
    driver.eqs.clear()
    must_with_doorbell(driver, Op.ENABLE_HCA, ringing)
    assert not any(function.hca.tables)
    assert len(function.hca.fwpages) == 0
    clock.advance(1_000_000_000)
    driver.bar.settle()
    assert completions.read(0, completions.length) == before
    assert driver.irqs.fired == []
    driver.probe()
    driver.must(Op.DEALLOC_PD, pd=driver.alloc_pd())


def test_teardown_names_and_frees_what_is_left(driver, function, caplog):
    for _ in range(10):
        driver.alloc_pd()
    driver.use_events()
    driver.must(Op.TEARDOWN_HCA)
    assert "10 pd left behind: 0x1, 0x2" in caplog.text
    assert "0x8, ..." in caplog.text
    assert "1 eq left behind: 0x1" in caplog.text
    assert not any(function.hca.tables)
    assert driver.irqs.fired == []
    driver.must(Op.DISABLE_HCA)


def test_queue_pair_left_behind_touches_nothing_any_more(driver, function, clock):
    """Neither a doorbell that rings during the teardown nor a timer brings it back."""
    parts = Parts(driver)
    ringing = parts.make(QpState.RTS)
    flushing = parts.make(QpState.ERR)
    completions = function.hca.cqs.get(parts.cqn).buffer
    before = completions.read(0, completions.length)
    for qpn in (ringing, flushing):
        record = function.hca.qps.get(qpn).ctx.dbr_addr
        driver.memory.write(record, bytes.fromhex("0000000100000001"))
    must_with_doorbell(driver, Op.TEARDOWN_HCA, ringing)
    clock.advance(1_000_000_000)
    driver.bar.settle()
    assert completions.read(0, completions.length) == before


def test_clean_teardown_says_nothing(driver, caplog):
    driver.remove()
    assert "left behind" not in caplog.text


def test_many_probes_on_one_function(cold, function):
    """Twenty times modprobe and rmmod, without a reset in between."""
    for _ in range(20):
        cold.probe()
        cold.create_cq(cold.create_eq())
        cold.must(Op.DESTROY_CQ, cqn=1)
        cold.remove()
        assert not any(function.hca.tables)
        assert len(function.hca.fwpages) == 0


def test_driver_says_what_it_is_called(driver, function):
    """Up to the first zero; an emulator's log and terminal can have any bytes. INIT_HCA forgets."""
    assert function.hca.driver.version == "mlx5emu,emu.driver"
    for name, shown in (
        (b"OpenBSD,mcx,1.000.000000\0more", "OpenBSD,mcx,1.000.000000"),
        (b"x" * 64, "x" * 64),
        (b"\xff\x1b[", "\\xff\x1b["),
        (b"", ""),
    ):
        driver.must(Op.SET_DRIVER_VERSION, driver_version=name.ljust(64, b"\0"))
        assert function.hca.driver.version == shown
    driver.must(Op.SET_DRIVER_VERSION, driver_version=b"another".ljust(64, b"\0"))
    driver.remove()
    driver.must(Op.ENABLE_HCA)
    driver.must(Op.INIT_HCA)
    assert function.hca.driver.version == ""


@pytest.mark.parametrize("issi", [0, 1])
def test_interface_step_as_chosen(enabled, issi):
    enabled.must(Op.SET_ISSI, current_issi=issi)
    answer = enabled.must(Op.QUERY_ISSI)
    assert answer.current_issi == issi
    assert answer.supported_issi_dw0 == 0b11


@pytest.mark.parametrize("issi", [2, 31, 32, 0xFFFF])
def test_unknown_interface_step(refused, issi):
    refused(Status.BAD_PARAM_ERR, Op.SET_ISSI, current_issi=issi)


def test_capabilities_as_set_are_current_and_the_maximum_stays(enabled):
    """The driver lowers what it does not want and reads its own choice back (handle_hca_cap)."""
    maximum, chosen = general(enabled, CapMode.MAX), general(enabled)
    chosen.log_max_qp = 12
    enabled.must(Op.SET_HCA_CAP, op_mod=GENERAL, capability=bytes(chosen.buf))
    enabled.must(Op.INIT_HCA)
    assert general(enabled).log_max_qp == 12
    assert bytes(general(enabled, CapMode.MAX).buf) == bytes(maximum.buf)


def test_chosen_limits_are_enforced(enabled):
    chosen = general(enabled)
    chosen.log_max_pd = 2
    enabled.must(Op.SET_HCA_CAP, op_mod=GENERAL, capability=bytes(chosen.buf))
    enabled.must(Op.INIT_HCA)
    assert [enabled.command(Op.ALLOC_PD).status for _ in range(4)] == [Status.OK] * 3 + [
        Status.LIM_ERR
    ]


def test_capability_above_its_maximum(enabled):
    chosen = general(enabled)
    chosen.log_max_qp += 1
    answer = enabled.command(Op.SET_HCA_CAP, op_mod=GENERAL, capability=bytes(chosen.buf))
    assert answer.status == Status.BAD_PARAM_ERR
    assert general(enabled).log_max_qp == chosen.log_max_qp - 1


def test_nested_capability_above_its_maximum(enabled):
    page = enabled.must(Op.QUERY_HCA_CAP, op_mod=CapType.ODP << 1 | CapMode.MAX).capability
    chosen = caps.odp_cap.view(bytearray(page))
    assert not chosen.transport_page_fault_scheme_cap.uc_odp_caps.atomic
    chosen.transport_page_fault_scheme_cap.uc_odp_caps.atomic = 1
    op_mod = CapType.ODP << 1
    answer = enabled.command(Op.SET_HCA_CAP, op_mod=op_mod, capability=bytes(chosen.buf))
    assert answer.status == Status.BAD_PARAM_ERR


def test_capabilities_are_fixed_after_init(driver, refused):
    page = bytes(general(driver).buf)
    refused(Status.BAD_SYS_STATE_ERR, Op.SET_HCA_CAP, op_mod=GENERAL, capability=page)


@pytest.mark.parametrize("mode", CapMode)
@pytest.mark.parametrize("group", [0x55, 0x7FFF])
def test_group_that_there_is_not(refused, group, mode):
    refused(Status.BAD_PARAM_ERR, Op.QUERY_HCA_CAP, op_mod=group << 1 | mode)


@pytest.mark.parametrize("mode", CapMode)
@pytest.mark.parametrize("group", [CapType.ROCE, CapType.ETHERNET_OFFLOADS, CapType.CRYPTO])
def test_group_of_which_the_device_has_nothing(enabled, function, group, mode):
    """Its page is empty, nothing of it can be chosen, and the summary tells who asked for it."""
    page = enabled.must(Op.QUERY_HCA_CAP, op_mod=group << 1 | mode).capability
    assert not any(page)
    assert enabled.command(Op.SET_HCA_CAP, op_mod=group << 1).status == Status.BAD_PARAM_ERR
    assert group in function.unhandled.cap_groups


@pytest.mark.parametrize("mode", CapMode)
def test_second_group_of_general_capabilities(driver, function, mode):
    """All bits of a key's page size, and nothing else."""
    assert general(driver).hca_cap_2
    answer = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL_2 << 1 | mode)
    sizes = caps.cmd_hca_cap_2.new(
        umr_log_entity_size_5=1, max_mkey_log_entity_size_fixed_buffer=63
    )
    assert answer.capability.rstrip(b"\0") == bytes(sizes.buf).rstrip(b"\0")
    assert not function.unhandled.cap_groups


def test_processes_ask_for_it_and_for_a_lag(driver):
    """What UCX reads when it opens a device: no LAG, no choice of a port."""
    uid = driver.must(Op.CREATE_UCTX).uid
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL_2 << 1 | 1, _uid=uid).capability
    second = caps.cmd_hca_cap_2.view(bytearray(page))
    assert not second.cross_vhca_object_to_object_supported
    lag = driver.must(Op.QUERY_LAG, _uid=uid).ctx
    assert (lag.lag_state, lag.port_select_mode) == (0, 0)


@pytest.mark.parametrize("limits", [{"atomic": 0, "pg": 0, "hca_cap_2": 0}])
@pytest.mark.parametrize("group", [CapType.ATOMIC, CapType.ODP, CapType.GENERAL_2])
def test_group_behind_a_closed_gate(enabled, group):
    for op in (Op.QUERY_HCA_CAP, Op.SET_HCA_CAP):
        assert enabled.command(op, op_mod=group << 1).status == Status.BAD_PARAM_ERR


def test_capabilities_of_another_function(refused):
    refused(Status.BAD_PARAM_ERR, Op.QUERY_HCA_CAP, other_function=1, function_id=3)


def test_signatures_start_switched_off(enabled):
    """A driver that cannot sign yet must be able to say so."""
    assert general(enabled).cmdif_checksum == 0
    assert general(enabled, CapMode.MAX).cmdif_checksum == 3


def test_adapter_names_vendor_and_board(driver, model):
    block = driver.must(Op.QUERY_ADAPTER).query_adapter_struct
    assert block.ieee_vendor_id == 0x0002C9
    assert block.vsd_contd_psid.rstrip(b"\0").decode() == model.psid


@pytest.mark.parametrize("name", ["connectx6", "connectx6dx"])
def test_only_an_ethernet_function_may_be_without_a_wire(memory, clock, name):
    def make():
        return Function(MODELS[name], HcaOptions(guid=1), TABLE, memory, IrqList(), clock, None)

    if name == "connectx6dx":
        assert make().hca.state is HcaState.DISABLED
    else:
        with pytest.raises(ValueError, match="needs a wire"):
            make()
