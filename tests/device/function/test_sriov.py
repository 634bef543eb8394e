"""Virtual functions that the SR-IOV capability of a physical function puts on the bus."""

import pytest
from helpers.device.sriov import CONTROL, NUM_VFS, VF_ENABLE, VF_MEMORY, Sriov

from emu.device.models.virtual_functions import VF_BAR_BYTES
from emu.device.objects.memory.memic import AREA_BYTES, MEMIC_PAGE
from emu.device.state.hca import HcaState
from emu.driver.command.bar import BUS_MASTER, MEMORY_SPACE, enable
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import NicInterface
from layouts.function.iseg import init_seg

ALL_ONES = b"\xff" * 4
COMMAND = 4


@pytest.fixture(params=["connectx6dx", "connectx6"])
def sriov(request, clock):
    link = PortType.ETH if request.param == "connectx6dx" else PortType.IB
    return Sriov(clock, name=request.param, link=link)


def alive(served):
    """Whether BAR 0 answers."""
    return served.function.bar_read(0, 0, 4) != ALL_ONES


def test_a_vf_answers_from_vf_enable_on(sriov):
    for vf in sriov.vfs:
        enable(vf.function)
    assert not any(map(alive, sriov.vfs)), "its own Command register counts for nothing"
    sriov.enable(2)
    assert [*map(alive, sriov.vfs)] == [True, True, False]
    assert sriov.on_bus() == [True, True, False]
    sriov.disable()
    assert not any(map(alive, sriov.vfs))
    assert sriov.on_bus() == [False] * 3


def test_memory_space_of_all_vfs_is_the_pfs(sriov):
    sriov.pf.put(NUM_VFS, 2, 3)
    sriov.pf.put(CONTROL, 2, VF_ENABLE)
    assert not any(map(alive, sriov.vfs))
    sriov.pf.put(CONTROL, 2, VF_ENABLE | VF_MEMORY)
    assert all(map(alive, sriov.vfs)), "whatever their own Command registers say"
    sriov.vfs[1].put(0x44, 2, 3)
    assert [*map(alive, sriov.vfs)] == [True, False, True], "D3hot"
    sriov.pf.put(CONTROL, 2, VF_ENABLE)
    assert not any(map(alive, sriov.vfs))


def test_a_vf_has_uar_pages_and_device_memory_in_its_small_bar(sriov):
    _, (driver,) = sriov.probed(1)
    function = sriov.vfs[0].function
    size = function.bar_sizes[0]
    assert size == VF_BAR_BYTES
    last = size - MEMIC_PAGE
    fields = {"range_start_addr": last, "range_size": MEMIC_PAGE, "memic_size": MEMIC_PAGE}
    assert driver.must(Op.ALLOC_MEMIC, **fields).memic_start_addr == last
    function.bar_write(0, size - 8, b"12345678")
    assert function.bar_read(0, size - 8, 8) == b"12345678"
    assert function.bar_read(0, size, 8) == b"\xff" * 8
    uars = []
    while (answer := driver.command(Op.ALLOC_UAR)).status == Status.OK:
        uars.append(answer.uar)
    assert len(uars) > 100
    assert (max(uars) + 1) * MEMIC_PAGE == size - AREA_BYTES


def test_a_vf_has_the_vport_of_its_number(sriov):
    adapter = sriov.pf.function.adapter
    assert [vf.function.vhca.vport_number for vf in sriov.vfs] == [1, 2, 3]
    assert {vf.function.adapter for vf in sriov.vfs} == {adapter}


def test_a_vf_has_no_address_until_the_pf_gives_it_one(clock):
    """From Linux 7.2 on, `ip link show` asks the firmware (core/eswitch.c: get_vport_config)."""
    sriov = Sriov(clock)
    pf, (vf,) = sriov.probed(1)
    other = {"other_vport": 1, "vport_number": 1}

    def addresses():
        asked = (pf, other), (vf, {})
        return [
            driver.must(Op.QUERY_NIC_VPORT_CONTEXT, **fields)
            .nic_vport_context.permanent_address.mac_addr_31_0
            for driver, fields in asked
        ]  # fmt: skip

    assert addresses() == [0, 0]
    pf.must(
        Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"permanent_address": 1},
        nic_vport_context={"permanent_address": {"mac_addr_31_0": 5}}, **other,
    )  # fmt: skip
    assert addresses() == [5, 5]


def test_a_vf_masters_the_bus_by_its_own_bit_while_it_is_enabled(sriov):
    first = sriov.vfs[0]
    first.put(COMMAND, 2, BUS_MASTER)
    first.function.interrupts.trigger(0)
    assert not first.irqs.fired, "latched"
    sriov.enable(1)
    assert first.irqs.fired


def test_disabled_vfs_lose_their_state(sriov):
    _, drivers = sriov.probed(2)
    for driver in drivers:
        driver.must(Op.ALLOC_PD)
    before = [vf.function.hca for vf in sriov.vfs]
    sriov.disable()
    after = [vf.function.hca for vf in sriov.vfs]
    assert [one is other for one, other in zip(before, after)] == [False, False, True]
    assert {hca.state for hca in after} == {HcaState.DISABLED}
    assert sriov.vfs[0].get(COMMAND, 2) == 0
    _, drivers = sriov.probed(2)
    drivers[1].must(Op.ALLOC_PD)


def test_an_flr_of_a_vf_ends_that_vf_only(sriov):
    pf, (_, second) = sriov.probed(2)
    other = sriov.vfs[1].function.hca
    manager = sriov.pf.function.hca
    sriov.vfs[0].flr()
    assert sriov.vfs[0].function.hca.state is HcaState.DISABLED
    assert sriov.vfs[1].function.hca is other
    assert sriov.pf.function.hca is manager
    assert sriov.on_bus() == [True, True, False], "VF Enable is the PF's"
    assert alive(sriov.vfs[0])
    pf.must(Op.ALLOC_PD)
    second.must(Op.ALLOC_PD)
    enable(sriov.vfs[0].function, MEMORY_SPACE | BUS_MASTER)
    sriov.vfs[0].probe().must(Op.ALLOC_PD)


@pytest.mark.parametrize("how", ["flr", "reset"])
def test_a_reset_of_the_pf_ends_its_vfs(sriov, how):
    sriov.probed(3)
    before = [vf.function.hca for vf in sriov.vfs]
    sriov.pf.flr() if how == "flr" else sriov.pf.function.reset()
    assert sriov.on_bus() == [False] * 3
    assert sriov.pf.get(NUM_VFS, 2) == 0
    assert not any(vf.function.hca in before for vf in sriov.vfs)
    assert not any(map(alive, sriov.vfs))
    sriov.probed(3)
    assert all(map(alive, sriov.vfs))


def test_a_reset_of_a_vf_by_its_client_ends_that_vf_only(sriov):
    sriov.probed(2)
    other = sriov.vfs[1].function.hca
    sriov.vfs[0].function.reset()
    assert sriov.on_bus() == [True, True, False]
    assert sriov.vfs[1].function.hca is other
    assert sriov.vfs[0].function.hca.state is HcaState.DISABLED


def test_vfs_come_and_go_without_a_trace(sriov):
    sizes = set()
    for _ in range(20):
        sriov.probed(3)
        sizes.add(sriov.pf.function.hca.ledger.used)
        sriov.disable()
        sriov.pf.function.reset()
        for vf in sriov.vfs:
            vf.function.run()
    assert len(sizes) == 1
    assert sriov.pf.function.adapter.has_vport(3)
    assert len(sriov.pf.function.adapter.vhcas) == 4


def segment(served):
    return init_seg.view(served.function.bar_read(0, 0, init_seg.size))


@pytest.mark.parametrize("end", [Op.DISABLE_HCA, Op.TEARDOWN_HCA])
def test_a_running_driver_finds_that_its_vf_was_disabled(sriov, end):
    """As in `devlink dev reload` of the PF (core/sriov.c: mlx5_sriov_detach, mlx5_sriov_attach)."""
    pf, (driver, _) = sriov.probed(2)
    vf = sriov.vfs[0]
    driver.must(Op.ALLOC_PD)
    assert segment(vf).cmdq_addr_l_sz.nic_interface == NicInterface.FULL_DRIVER
    pf.must(end, **{"function_id": 1} if end == Op.DISABLE_HCA else {})
    assert segment(vf).cmdq_addr_l_sz.nic_interface == NicInterface.DISABLED
    assert segment(vf).initializing.initializing, "its recovery waits"
    if end == Op.TEARDOWN_HCA:
        pf = sriov.pf.probe()
    else:
        assert not segment(sriov.vfs[1]).initializing.initializing
    pf.must(Op.ENABLE_HCA, function_id=1)
    assert segment(vf).cmdq_addr_l_sz.nic_interface == NicInterface.DISABLED, "also a late poll"
    assert not segment(vf).initializing.initializing
    assert not any(map(len, vf.function.hca.tables))
    vf.probe().must(Op.ALLOC_PD)


@pytest.mark.hostile
def test_a_vf_cannot_enable_itself(sriov):
    for offset in range(0, 4096, 4):
        sriov.vfs[0].put(offset, 4, 0xFFFF_FFFF)
    assert sriov.on_bus() == [False] * 3
    assert not alive(sriov.vfs[0])
