"""Hostile guests: endings of many objects that wait, for timers, pages, packets or each other.

Some patterns change many objects at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from attacks.guest import MIB, MILLION, Guest, key_fields
from attacks.switches import Manager
from attacks.watch import Watch, WatchedBar, pattern
from emu.device.cmdif.registry import COMMANDS
from emu.device.models import LINKS
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.rings import sq_fields
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.nodes.packet_wire import PacketWire
from emu.driver.verbs.dynamic import Initiator, Target
from firmware_cmds.objects.scheduling import E_SWITCH
from firmware_cmds.objects.vport_scheduling import TSAR, VPORT
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.hca import TeardownProfile
from layouts.enums.qp import QpType

WAITING = 9000
RESPONDERS = 10_000
PAGE_FAULTS = 3000
SEND_QUEUES = 16_000
GROUPS = 60_000
NOBODY = 0x77
"""LID that no port has."""
RAM = 768 * MIB


def _unwatched(guest: Guest) -> Guest:
    """Return the guest for preparation by its driver, which is not measured."""
    guest.driver.bar = WatchedBar(guest.watch.unwatched(), [guest.function])
    return guest


def _watched(guest: Guest) -> None:
    guest.driver.bar = WatchedBar(guest.watch, [guest.function])


def _unanswered(guest: Guest, count: int) -> None:
    """Make queue pairs whose only request waits for its timeout, without an answer."""
    node, cq = guest.node, guest.node.completion_queue(14)
    region = node.region(4096)
    for _ in range(count):
        qp = node.queue_pair(cq=cq, log_sq_size=0, log_rq_size=0, log_rq_stride=0)
        qp.init().to_rtr(NOBODY, qpn=0x1234).to_rts(ack_timeout=20)
        qp.write((1, 0), region.sge(0, 64))
        node.settle()
    waiting = sum(1 for qp in node.hca.qps if qp.timer is not None or qp.connection is not None)
    if waiting < count:
        raise RuntimeError(f"{waiting} queue pairs wait, not {count}")


def _absent(guest: Guest, count: int) -> Pager:
    """Return queue pairs each of which waits for a page that is absent."""
    node, pager = guest.node, Pager(guest.node, log_size=13)
    region, cq = PagedRegion(pager, 4096), node.completion_queue(14)
    for _ in range(count):
        qp = node.queue_pair(cq=cq, log_sq_size=0, log_rq_size=0, log_rq_stride=0)
        qp.init().to_rtr(node.lid, qpn=0x1234).to_rts()
        qp.write((1, 0), region.sge(0, 64))
        node.settle()
    if len(node.hca.page_faults) != count:
        raise RuntimeError(f"{len(node.hca.page_faults)} page faults, not {count}")
    return pager


def _reset(guest: Guest) -> None:
    guest.watch.round(guest.function.reset)


def _teardown(guest: Guest, profile: TeardownProfile) -> None:
    guest.driver.must(Op.TEARDOWN_HCA, profile=profile)


_ENDINGS: dict[str, Callable[[Guest], object]] = {
    "a reset": _reset,
    "TEARDOWN_HCA": partial(_teardown, profile=TeardownProfile.GRACEFUL_CLOSE),
    "a forced TEARDOWN_HCA": partial(_teardown, profile=TeardownProfile.FORCE_CLOSE),
    "ENABLE_HCA of a crash kernel": lambda guest: guest.driver.must(Op.ENABLE_HCA),
    "a failure": lambda guest: guest.watch.round(guest.function.hca.health.fail),
}


def _ending(title: str, end: Callable[[Guest], object]) -> None:
    @pattern(f"{title} while {WAITING} queue pairs wait for an answer")
    def ended(watch: Watch) -> Iterator[None]:
        guest = _unwatched(Guest(watch, RAM))
        _unanswered(guest, WAITING)
        yield
        _watched(guest)
        end(guest)
        watch.settle(guest.function)


for _title, _end in _ENDINGS.items():
    _ending(_title, _end)


@pattern(f"a reset while {WAITING} connections wait for acknowledgements of their packets")
def packets(watch: Watch) -> Iterator[None]:
    guest = _unwatched(Guest(watch, RAM, wire=PacketWire()))
    _unanswered(guest, WAITING)
    yield
    watch.reset(guest.function)


@pattern(f"a reset of a function with {RESPONDERS} responders of DC initiators")
def responders(watch: Watch) -> Iterator[None]:
    guest = _unwatched(Guest(watch, RAM))
    _responders(guest, guest)
    yield
    watch.reset(guest.function)


def _responders(guest: Guest, other: Guest) -> None:
    target, region = Target(other.node), other.node.region(4096)
    for _ in range(RESPONDERS):
        initiator = Initiator(guest.node, target)
        initiator.write((region.key, region.va), b"x")
        guest.node.settle()
    if sum(len(dct.responders) for dct in other.node.hca.dcts) != RESPONDERS:
        raise RuntimeError("not all messages have arrived")


@pattern(f"a reset while {PAGE_FAULTS} page faults are open")
def page_faults(watch: Watch) -> Iterator[None]:
    guest = _unwatched(Guest(watch, RAM))
    _absent(guest, PAGE_FAULTS)
    yield
    watch.reset(guest.function)


@pattern(f"DESTROY_EQ of the queue that {PAGE_FAULTS} page faults have been told by")
def event_queue(watch: Watch) -> Iterator[None]:
    guest = _unwatched(Guest(watch, RAM))
    pager = _absent(guest, PAGE_FAULTS)
    _watched(guest)
    yield
    guest.driver.must(Op.DESTROY_EQ, eq_number=pager.eqn)
    watch.settle(guest.function)
    if len(guest.node.hca.page_faults):
        raise RuntimeError("page faults are still open")


def _large_keys(guest: Guest, count: int) -> list[int]:
    """Create keys of 8 million entries each, over user memory."""
    fields, keys = guest.large_umem(), []
    for _ in range(count):
        sent = guest.submit(Op.CREATE_MKEY, **fields, **key_fields(guest.node, 8 * MILLION))
        guest.ring()
        keys.append(int(guest.collect(sent).mkey_index))
    return keys


@pattern("eight DESTROY_MKEY of 8 million entries each, in eight slots")
def large_keys(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    keys = _large_keys(guest, 8)
    yield
    layout = COMMANDS[Op.DESTROY_MKEY].layout_in
    for slot, index in enumerate(keys):
        view = layout.new(opcode=Op.DESTROY_MKEY, mkey_index=index)
        guest.driver.submit(bytes(view.buf), 16, slot)
    guest.ring(len(keys))
    if any(guest.function.hca.mkeys.get(index) is not None for index in keys):
        raise RuntimeError("a key is still there")


@pattern("a reset of a function with 32 keys of 8 million entries each")
def large_keys_reset(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    _large_keys(guest, 32)
    yield
    watch.reset(guest.function)


@pattern(f"DESTROY_QP of one of two queue pairs in {GROUPS} multicast groups each, then a reset")
def memberships(watch: Watch) -> Iterator[None]:
    guest = _unwatched(Guest(watch))
    made = [guest.node.queue_pair(QpType.UD) for _ in range(2)]
    for number in range(GROUPS):
        gid = b"\xff\x12" + number.to_bytes(14, "big")
        for qp in made:
            guest.driver.must(Op.ATTACH_TO_MCG, qpn=qp.qpn, multicast_gid=gid)
    _watched(guest)
    yield
    guest.driver.must(Op.DESTROY_QP, qpn=made[0].qpn)
    watch.reset(guest.function)


@pattern(f"scheduling elements of a vPort with {SEND_QUEUES} send queues, made, changed, destroyed")
def rates(watch: Watch) -> Iterator[None]:
    manager = Manager(watch, LINKS["connectx6dx"][PortType.ETH], 6)
    node, driver = manager.node, manager.node.driver
    tisn, cq = create_tis(driver, alloc_td(driver)), node.completion_queue()
    fields, _ = sq_fields(driver, node.pdn, cq.cqn, tisn=tisn)
    for _ in range(SEND_QUEUES):
        driver.must(Op.CREATE_SQ, **fields)
    given = {"scheduling_hierarchy": E_SWITCH}
    element = {"element_type": TSAR}
    root = driver.must(Op.CREATE_SCHEDULING_ELEMENT, **given, scheduling_context=element)
    driver.bar = WatchedBar(watch, [manager.function])
    yield
    element = {
        "element_type": VPORT, "parent_element_id": root.scheduling_element_id,
        "max_average_bw": 100,
    }  # fmt: skip
    made = driver.must(Op.CREATE_SCHEDULING_ELEMENT, **given, scheduling_context=element)
    named = given | {"scheduling_element_id": made.scheduling_element_id}
    element = {"max_average_bw": 50}
    driver.must(Op.MODIFY_SCHEDULING_ELEMENT, **named, modify_bitmask=2, scheduling_context=element)
    driver.must(Op.DESTROY_SCHEDULING_ELEMENT, **named)
    if any(sq.pacing is not None for sq in node.hca.sqs):
        raise RuntimeError("a queue still goes by the rate of its vPort")
