"""Resets of the function: what is forgotten, what is kept, and a driver that comes back."""

import logging

import pytest

from emu.device.function.msix import MSIX_TABLE
from emu.device.pci import Correctable
from emu.device.rounds.budget import CLIENT_BUDGET, POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_RESTART
from emu.device.state.hca import HcaOptions, HcaState
from emu.driver.command.bar import MEMORY_SPACE, enable
from emu.driver.verbs.parts import Parts
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.enums.hca import NicInterface
from layouts.enums.regs import RegId
from layouts.enums.vport import CapMask1
from layouts.function.iseg import init_seg
from layouts.regs import reg

PCI_EXPRESS = 0x10
DEVICE_CONTROL = 8
INITIATE_FLR = 1 << 15
AER_CORRECTABLE_STATUS = 0x110
COMMAND = 4
SECOND = 1_000_000_000


@pytest.fixture
def options():
    return HcaOptions(guid=0x10, boot_pages=2)


def express_capability(function):
    """Offset of the PCI Express capability, found along the list."""
    at = function.config_read(0x34, 1)[0]
    while at and function.config_read(at, 1)[0] != PCI_EXPRESS:
        at = function.config_read(at + 1, 1)[0]
    assert at
    return at


def flr(function):
    """Initiate Function Level Reset, as the kernel's pcie_flr does."""
    at = express_capability(function) + DEVICE_CONTROL
    control = int.from_bytes(function.config_read(at, 2), "little") | INITIATE_FLR
    function.config_write(at, control.to_bytes(2, "little"))


RESETS = {"flr": flr, "bus reset": lambda function: function.reset()}


@pytest.fixture(params=RESETS)
def reset(request):
    """Resets a function, and enables it again, as the kernel does (pci_restore_state)."""

    def reset_and_enable(function):
        RESETS[request.param](function)
        enable(function)

    return reset_and_enable


def test_no_object_survives(driver, function, irqs, reset):
    pdn = driver.alloc_pd()
    cqn = driver.create_cq(driver.create_eq(events=[EventType.PORT_CHANGE]))
    qpn = driver.create_qp(pdn, cqn)
    driver.create_mkey(pdn)
    driver.must(Op._2ERR_QP, qpn=qpn)
    reset(function)
    assert not any(function.hca.tables)
    assert len(function.hca.fwpages) == 0
    assert function.hca.state is HcaState.DISABLED
    enable(function)
    irqs.fired.clear()
    before = driver.memory.contents()
    set_link(function.hca, up=False)
    assert driver.memory.contents() == before
    assert irqs.fired == []


def test_flushing_queue_pair_stops(driver, function, reset, clock):
    """In ERR the device looks for receives by timer; after a reset the memory is not its own."""
    parts = Parts(driver)
    fields = parts.fields()
    qpn = driver.must(Op.CREATE_QP, **fields).qpn
    driver.must(Op._2ERR_QP, qpn=qpn)
    reset(function)
    driver.memory.write(fields["qpc"]["dbr_addr"], (1).to_bytes(4, "big"))
    before = driver.memory.contents()
    clock.advance(SECOND)
    function.run()
    assert driver.memory.contents() == before


def test_event_that_was_held_back_is_lost(driver, function, reset, clock):
    """A moderated CQ reports later; after a reset nobody waits for it."""
    parts = Parts(driver, cq_period=1000, cq_max_count=5)
    qpn = parts.make()
    driver.bar.write(driver.uar * 4096 + 0x20, parts.cqn.to_bytes(8, "big"))
    driver.memory.write(function.hca.qps.get(qpn).ctx.dbr_addr, (1).to_bytes(4, "big"))
    driver.must(Op._2ERR_QP, qpn=qpn)
    assert function.hca.cqs.get(parts.cqn).pi == 1
    reset(function)
    before = driver.memory.contents()
    clock.advance(SECOND)
    assert driver.memory.contents() == before
    assert driver.irqs.fired == []


def test_settings_are_those_of_power_on(driver, function, reset):
    described = driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc
    change = {"cap_mask1": CapMask1.SM, "cap_mask1_field_select": CapMask1.SM}
    driver.must(Op.MODIFY_HCA_VPORT_CONTEXT, hca_vport_context=change)
    driver.write_register(RegId.NODE_DESC, b"described".ljust(64, b"\0"))
    reset(function)
    driver.probe()
    port = driver.must(Op.QUERY_HCA_VPORT_CONTEXT).hca_vport_context
    assert not port.cap_mask1 & CapMask1.SM
    assert driver.read_register(RegId.NODE_DESC, reg.node_desc_reg).desc == described


def test_running_driver_sees_a_disabled_interface(driver, function, reset):
    reset(function)
    seg = init_seg.view(driver.bar.read(0, init_seg.size))
    assert seg.cmdq_addr_l_sz.nic_interface == NicInterface.DISABLED
    assert (seg.cmdq_addr_h, seg.cmdq_addr_l_sz.cmdq_phy_addr_l) == (0, 0)


def test_vectors_are_masked_again(driver, function, reset):
    fresh = driver.bar.read(MSIX_TABLE, 1024)
    driver.bar.write(MSIX_TABLE, bytes(range(64)))
    reset(function)
    assert driver.bar.read(MSIX_TABLE, 1024) == fresh


def test_vector_that_was_latched_is_not_sent(driver, function, reset, irqs):
    """Nobody has enabled it; the next driver must not get what the last one did not want."""
    enable(function, MEMORY_SPACE)
    irqs.trigger(7)
    assert irqs.pending(7)
    reset(function)
    assert not irqs.pending(7)
    assert irqs.fired == []


def test_command_that_was_rung_for_is_not_run(driver, function, reset):
    """The slot stays the device's: the driver gives up on it, and nothing writes it later."""
    driver.submit(Op.QUERY_ADAPTER.to_bytes(2, "big") + bytes(14), 272)
    driver.write32(0x018, 1)
    before = driver.memory.read(driver.queue, 64)
    reset(function)
    driver.bar.settle()
    assert driver.memory.read(driver.queue, 64) == before


def test_doorbells_of_the_old_driver_are_ignored(driver, function, reset, caplog):
    caplog.set_level(logging.DEBUG)
    queue = driver.use_events()
    reset(function)
    driver.ring(1)
    assert "no command queue address is set" in caplog.text
    queue.arm()
    assert "which is not allocated" in caplog.text
    assert driver.irqs.fired == []


def test_driver_comes_back(driver, function, reset):
    for _ in range(5):
        reset(function)
        driver.eqs.clear()
        driver.probe()
        driver.create_cq(driver.create_eq())
        assert len(function.hca.fwpages) == 4


def test_fabric_knows_the_new_self(driver, function, wire, reset):
    old = function.hca
    reset(function)
    assert function.hca is not old
    assert wire.node(function.hca.port.lid) is function.hca


def test_configuration_space_is_reset_but_the_bus_reset_clears_more(function):
    """Error status is sticky: an FLR keeps it for the driver to read (PCIe 5.0, 7.4)."""
    function.config_write(COMMAND, b"\x06\x00")
    function.config.report_error(correctable=True, status_bit=Correctable.BAD_TLP)
    status = function.config_read(AER_CORRECTABLE_STATUS, 4)
    assert any(status)
    flr(function)
    assert function.config_read(COMMAND, 2) == bytes(2)
    assert function.config_read(AER_CORRECTABLE_STATUS, 4) == status
    function.reset()
    assert function.config_read(AER_CORRECTABLE_STATUS, 4) == bytes(4)


def test_flr_bit_reads_as_zero(function):
    flr(function)
    at = express_capability(function) + DEVICE_CONTROL
    assert not int.from_bytes(function.config_read(at, 2), "little") & INITIATE_FLR


@pytest.mark.hostile
def test_requests_of_the_client_wait_only_behind_its_own_work(function, clock):
    """Polls use up their budget in each round, and the client is served after them."""
    budget = clock.budget
    budget.begin()
    budget.charge(POLL_BUDGET + 1)
    assert not function.is_round_used
    resets = 0
    while not function.is_round_used:
        function.reset()
        resets += 1
        assert resets < CLIENT_BUDGET
    assert 1 < resets <= 1 + (CLIENT_BUDGET - POLL_BUDGET) // STEPS_PER_RESTART
