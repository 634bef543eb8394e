"""UAR pages of guests whose pages have 4, 16 and 64 KiB (log_uar_page_sz 0, 2, 4)."""

import pytest
from helpers.device.sub_functions import NUMBER, Manager

from emu.device.function.blueflame import HOLD_NS
from emu.device.function.doorbells import PAGE
from emu.device.objects.domains import FIRST_UAR
from emu.device.objects.memory.memic import AREA_BYTES
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.server.net.ib.local import LocalFabric
from emu.server.service.devicespec import parse
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.hca import TeardownProfile
from layouts.enums.wqe import Opcode
from layouts.function import caps
from layouts.rings.wqe import CTRL

SHIFTS = pytest.mark.parametrize("shift", [0, 2, 4])
FORMS = pytest.mark.parametrize(("shift", "uar_4k"), [(0, 1), (2, 1), (4, 1), (4, 0)])
SIGNALED = 8


def driver_of(function, memory, irqs, shift, uar_4k=1):
    """A driver whose pages have ``4096 << shift`` bytes."""
    driver = Driver(FunctionBar(function), memory, irqs)
    return driver.probe(log_uar_page_sz=shift, uar_4k=uar_4k)


@pytest.fixture
def make(function, memory, irqs):
    return lambda *form: driver_of(function, memory, irqs, *form)


def general(driver, mode):
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL << 1 | mode).capability
    return caps.cmd_hca_cap.view(bytearray(page))


def taken(driver):
    """All UARs that are left."""
    numbers = []
    while (answer := driver.command(Op.ALLOC_UAR)).status == Status.OK:
        numbers.append(answer.uar)
    assert answer.status == Status.LIM_ERR
    return numbers


@SHIFTS
def test_the_capabilities_follow_the_driver_s_pages(make, cold, shift):
    at_reset = make(0)
    assert general(at_reset, CapMode.CUR).num_of_uars_per_page == 1
    at_reset.remove()
    for _ in range(2):
        driver = make(shift)
        now = general(driver, CapMode.CUR)
        assert (now.log_uar_page_sz, now.num_of_uars_per_page) == (shift, 1 << shift)
        driver.remove()


def test_pages_above_64_kib_are_refused(cold):
    cold.probe().remove()
    cold.must(Op.ENABLE_HCA)
    page = general(cold, CapMode.CUR)
    page.log_uar_page_sz = 5
    answer = cold.command(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page.buf))
    assert answer.status == Status.BAD_PARAM_ERR
    assert general(cold, CapMode.CUR).log_uar_page_sz == 0


@FORMS
def test_each_allocation_is_a_page_of_the_guest(make, function, shift, uar_4k):
    """Between the registers and MSI-X structures in the first 32 KiB and the device memory."""
    driver = make(shift, uar_4k)
    log_number = 12 if uar_4k else 12 + shift
    pages = [number << log_number for number in (driver.uar, *taken(driver))]
    size = PAGE << shift
    assert len(pages) == len(set(pages))
    assert not any(page % size for page in pages)
    assert min(pages) >= FIRST_UAR * PAGE
    assert max(pages) + size == function.bar_sizes[0] - AREA_BYTES
    assert sorted(pages) == [*range(min(pages), max(pages) + 1, size)]


@SHIFTS
def test_a_freed_page_is_allocated_again(make, shift):
    driver = make(shift)
    numbers = taken(driver)
    for number in numbers[1:4]:
        driver.must(Op.DEALLOC_UAR, uar=number)
    assert taken(driver) == numbers[1:4]


@pytest.mark.parametrize("shift", [2, 4])
def test_only_the_first_number_of_a_page_frees_it(make, shift):
    driver = make(shift)
    inner = driver.uar + 1
    assert driver.command(Op.DEALLOC_UAR, uar=inner).status == Status.BAD_RES_STATE_ERR
    driver.must(Op.DEALLOC_UAR, uar=driver.uar)


@SHIFTS
def test_queues_name_any_uar_of_an_allocated_page(make, shift):
    driver = make(shift)
    first, pdn = driver.uar, driver.alloc_pd()
    for driver.uar in range(first, first + (1 << shift)):
        cqn = driver.create_cq(driver.create_eq())
        driver.create_qp(pdn, cqn)
    for driver.uar in (first - 1, first + (1 << shift)):
        with pytest.raises(Exception, match="BAD_RES_ERR"):
            driver.create_eq()


@FORMS
def test_messages_and_events_by_each_uar_of_a_page(make, function, shift, uar_4k):
    driver = make(shift, uar_4k)
    first = driver.uar
    for driver.uar in range(first, first + (1 << shift if uar_4k else 1)):
        node = Node(function, driver)
        qp, peer = node.queue_pair(), node.queue_pair()
        connect(qp, peer)
        target = node.region(4096)
        peer.post_recv(target.sge())
        peer.cq.arm()
        qp.send(b"hello")
        node.function.run()
        assert [entry.opcode for entry in qp.cq.drain()] == [CqeOpcode.REQ]
        assert target.read(0, 5) == b"hello"
        assert peer.cq.events() == 1


@pytest.mark.parametrize("shift", [2, 4])
def test_a_cq_is_armed_only_by_the_uar_that_it_names(make, function, caplog, shift):
    driver = make(shift)
    cq = Node(function, driver).queue_pair().cq
    driver.uar += 1
    cq.arm()
    assert f"sent through UAR {driver.uar:#x}" in caplog.text
    driver.uar -= 1
    cq.arm()
    assert caplog.text.count("sent through UAR") == 1


def test_without_uar_4k_doorbells_are_in_the_first_4_kib_of_a_page(make, function):
    driver = make(4, 0)
    node = Node(function, driver)
    qp, peer = node.queue_pair(), node.queue_pair()
    connect(qp, peer)
    peer.post_recv(node.region(4096).sge())
    qp.send(b"hello", ring=False)
    base, bell = driver.uar * driver.uar_bytes, bytes(4) + (qp.qpn << 8).to_bytes(4, "big")
    driver.bar.write(base + PAGE + 0x800, bell)
    node.function.run()
    assert not qp.cq.drain()
    driver.bar.write(base + 0x800, bell)
    node.function.run()
    assert len(qp.cq.drain()) == 1


def test_copies_by_two_uars_of_a_page_stay_apart(clock):
    """BlueFlame: each register of a page has its own buffers."""
    node = two_nodes(parse("connectx6,bf=1").model, clock, LocalFabric(clock))[0]
    driver = node.driver
    driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.FORCE_CLOSE)
    node = Node(node.function, driver.probe(log_uar_page_sz=4))
    qps = [node.queue_pair() for _ in range(2)]
    connect(*qps)
    target = node.region(4096)
    wqes = []
    for qp, peer in (qps, qps[::-1]):
        peer.post_recv(target.sge())
        index = qp.send(b"-", ring=False)
        inline = (1 << 31 | 8).to_bytes(4, "big") + f"by {qp.qpn:05}".encode()
        wqe = CTRL.pack(index << 8 | Opcode.SEND, qp.qpn << 8 | 2, SIGNALED, 0) + inline
        wqes.append(wqe.ljust(64, b"\0"))
    for at in range(0, 64, 8):  # alternately, into the same offset of two UARs
        for uar, wqe in enumerate(wqes, driver.uar):
            driver.bar.write(uar * PAGE + 0x800 + at, wqe[at : at + 8])
    node.function.run()
    clock.advance(HOLD_NS)
    node.function.run()
    assert [len(qp.cq.drain()) for qp in qps] == [2, 2]
    assert target.read(0, 8) == f"by {qps[1].qpn:05}".encode()


@SHIFTS
def test_sub_functions_have_uars_of_the_guest_s_pages(clock, shift):
    manager = Manager(clock)
    manager.active()
    memory = manager.memory
    driver = Driver(manager.bar(NUMBER), memory, manager.irqs).probe(log_uar_page_sz=shift)
    size = PAGE << shift
    pages = sorted(number * PAGE for number in (driver.uar, *taken(driver)))
    assert pages == [*range(-(-FIRST_UAR * PAGE // size) * size, 1 << 20, size)]
    driver.create_eq()
