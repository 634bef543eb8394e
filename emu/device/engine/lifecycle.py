"""Lifecycle of a function: queues that must stop, link changes, teardown and shutdown.

``emu.device.state.hca`` holds the state; this module changes all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from typing import NamedTuple

from emu.device import engine
from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.engine import vhca_state
from emu.device.engine.esw import sharing
from emu.device.engine.eth import pacing
from emu.device.engine.eth import queues as eth_queues
from emu.device.engine.events import board, vport_change
from emu.device.engine.events import eq as eq_engine
from emu.device.engine.mr import page_faults
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.rc import dynamic
from emu.device.objects.eth.pacing import Pacing
from emu.device.objects.object import Object
from emu.device.objects.queues.copies import Copy
from emu.device.objects.queues.eq import Eq
from emu.device.objects.queues.page_fault import PageFaultTable
from emu.device.objects.table import Table
from emu.device.port.eth.vport import NicVport
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_SHUT_DOWN, STEPS_PER_STOP
from emu.device.rounds.portions import Portions
from emu.device.state.events import Events
from emu.device.state.hca import Hca, HcaState
from emu.device.state.polls import POLLS
from layouts.enums.caps import PortType
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.vport import VportAdminState, VportPolicy
from layouts.rings.eqe import eqe_port_state

log = logging.getLogger(__name__)

for _module in walk_packages(engine.__path__, f"{engine.__name__}."):
    import_module(_module.name)  # modules with a poll function register it


def run(hca: Hca) -> bool:
    """Poll ready queues within the budget (``Scheduler.poll``); return whether work is left.

    First stop the users of broken CQs, a part in each round.
    """
    scheduler = hca.scheduler
    if scheduler.has_broken_cqs and not hca.budget.exhausted(POLL_BUDGET):
        _stop_users_of_broken_cqs(hca)
    if not scheduler.ready:
        return scheduler.has_broken_cqs
    return scheduler.poll(hca, hca.budget, POLLS)


def _stop_users_of_broken_cqs(hca: Hca) -> None:
    """Stop queues that report to broken CQs; continue in later rounds when the budget ends.

    ``scheduler.stopping`` holds the rest of the pass, None once every queue is examined. CQs that
    break during a pass wait in ``scheduler.broken_cqs`` for the next one.
    """
    scheduler = hca.scheduler
    if scheduler.stopping is None:
        broken, scheduler.broken_cqs = frozenset(scheduler.broken_cqs), []
        scheduler.stopping = chain(
            qp_life.stop_users(hca, broken), eth_queues.stop_users(hca, broken)
        )
    for is_stopped in scheduler.stopping:
        hca.budget.charge(STEPS_PER_STOP if is_stopped else 1)
        if hca.budget.exhausted(POLL_BUDGET):
            return
    scheduler.stopping = None
    scheduler.has_broken_cqs = bool(scheduler.broken_cqs)


def teardown(hca: Hca) -> None:
    """Stop the function, destroy all its objects (TEARDOWN_HCA) and return to ENABLED.

    Log a warning for each table with objects that the driver left. Firmware pages stay with the
    function. A LAG that it is master of ends, as do its rates of vPorts. Its sub-functions stop,
    and other switches lose its tables as root.
    """
    for table in hca.tables:
        if table:
            log.warning("teardown: %d %s left behind: %s", len(table), table.kind, _few(table))
    quiesce(hca)
    hca.drop_objects()
    hca.state = HcaState.ENABLED


def shut_down(hca: Hca) -> None:
    """Forget objects and firmware pages at once, without logging them; the state becomes DISABLED.

    A driver sends this when its machine goes down. Afterwards the function only executes commands.
    A LAG that it is master of ends, as do its rates of vPorts. Its sub-functions stop, and other
    switches lose its tables as root. A sub-function also leaves IN_USE or TEARDOWN_REQUEST, which
    may raise VHCA_STATE_CHANGE at its manager.
    """
    log.info("%s: shut down", hca.model.name)
    hca.budget.charge(STEPS_PER_SHUT_DOWN)
    quiesce(hca)
    hca.drop_objects()
    hca.fwpages.forget()
    for pages in hca.fwpages.virtual.values():
        pages.forget()
    hca.state = HcaState.DISABLED
    if hca.sub_function is not None:
        manager = hca.managed_by
        vhca_state.driver_ended(hca.sub_function, manager.events, manager.caps)


def disable(vhca: Vhca[Hca]) -> None:
    """Restart a virtual function for its manager; its driver cannot start until it is enabled.

    Its firmware pages are not in use any more. A driver that still runs finds ``nic_interface``
    DISABLED at its next health poll, recovers, and meanwhile waits for the firmware's
    initialization (core/health.c: mlx5_health_check_fatal_sensors; core/main.c: wait_fw_init).
    """
    node = vhca.node
    if node is not None:
        node.given_pages.want(0)
        is_running = not node.health.has_failed and node.state is not HcaState.DISABLED
        if is_running and vhca.restart is not None:
            vhca.restart()
    set_enabled(vhca, enabled=False)


def quiesce(hca: Hca) -> None:
    """Stop all access to guest memory, whatever doorbells or timers are pending; keep the objects.

    End the function's virtual functions, unless it has failed, its sub-functions and the LAG that
    it is master of. Unset its flow tables as roots of other switches, and end the rates that it has
    set for vPorts. Cancel page faults, copies and pulses. Drop all ready queues and backlogs. An
    Ethernet function that is not the manager loses the address lists and promiscuous modes of its
    vPort; the manager gets NIC_VPORT_CHANGE if that is armed.

    A function may have 250,000 queues, each with pending callbacks. ``Hca.end_lifetime`` disables
    the callbacks; ``Object.cancel_work`` cancels a few in each round, when the objects are freed.
    """
    hca.adapter.board.end_lag_of(hca.vhca)
    if hca.vhca.is_manager:
        hca.adapter.disarm()  # the ends below write no event into memory that may be unmapped
        if not hca.health.has_failed:
            for vhca in hca.adapter.virtual_functions():
                disable(vhca)
    elif hca.model.port_type is PortType.ETH:
        vport_change.driver_ended(hca.nic_vport, hca.vhca)
    if hca.eswitch is not None:
        sharing.detach_slaves(hca.vhca)
        limited = hca.eswitch.end_rates()
        for node in hca.adapter.nodes():
            if node.vhca.vport_number in limited:
                pacing.apply_to_all(node)
    if hca.sub_functions is not None:
        hca.sub_functions.stop_all()
    hca.end_lifetime()
    for qp in hca.qps:
        if qp.moving is not None:
            qp.moving = None  # drops its views: guest memory may be unmapped next
    for dct in hca.dcts:
        if dct.responders:
            hca.deferred_free.add_work(dynamic.end_all(dct))
    page_faults.cancel_all(hca)
    eq_engine.quiesce(hca.events)
    for pin in hca.pins:
        pin.stop()
    if hca.copies:
        hca.deferred_free.add_work(_stop_each(hca.copies.values()))
        hca.copies = {}
    paced = [sq.pacing for sq in hca.sqs if sq.pacing is not None]
    if paced:  # neighbours by a shared rate do not wait until the objects are freed
        hca.deferred_free.add_work(_stop_each(paced))
    if hca.rates.roce is not None:
        hca.rates.roce.stop_waiting()
    if hca.probes.faults is not None:
        hca.probes.faults.forget_objects()
    hca.sessions.clear()
    hca.backlogs.clear()
    hca.rates.repacing.clear()
    hca.cqes.forget_held()
    hca.scheduler.clear()
    hca.scheduler.wake()  # deferred frees run in its rounds; another function may have ended it


def _stop_each(waiting: Iterable[Copy | Pacing]) -> Iterator[int]:
    for one in waiting:
        one.stop_waiting()
        yield 1


def unsubscribe(events: Events, faults: PageFaultTable, eq: Eq) -> Portions[None]:
    """Remove the event subscriptions of an EQ that is being destroyed.

    If no other EQ subscribes to PAGE_FAULT, fail all open page faults, in several steps.
    """
    events.unsubscribe(eq)
    if events.subscribers.get(EventType.PAGE_FAULT) is None:
        yield from page_faults.refuse_all(events, faults)


def set_link(hca: Hca, *, up: bool) -> None:
    """Insert or pull the port's cable.

    Each function whose vPort goes up or down thereby gets a PORT_CHANGE event and notifies the wire
    and the switch. The adapter's manager gets PORT_MODULE_EVENT if its own cable's presence has
    changed: the end port of an InfiniBand virtual function has another one.
    """
    before = _links(hca.adapter)
    had_cable = hca.port.has_cable
    hca.port.set_link(up=up)
    _follow_physical(hca.vhca)
    _follow_link(before)
    manager = hca.adapter.manager.node
    if up != had_cable and manager is not None and manager.port is hca.port:
        board.raise_module_event(manager)


def set_admin(hca: Hca, *, up: bool) -> None:
    """Enable or disable the port on its driver's request.

    Each function whose vPort goes up or down thereby gets a PORT_CHANGE event and notifies the wire
    and the switch. mlx5e reads the link before it enables the port, and waits for the event
    afterwards (core/en_main.c: mlx5e_open, async_event).
    """
    before = _links(hca.adapter)
    hca.port.set_admin(up=up)
    _follow_physical(hca.vhca)
    _follow_link(before)


def set_vport_admin(vport: NicVport, adapter: Adapter[Hca], *, up: bool) -> None:
    """Enable or disable the virtual port of an Ethernet function, on its own driver's request.

    If its vPort goes up or down thereby, raise PORT_CHANGE and notify the wire and the switch.
    """
    before = _links(adapter)
    vport.admin_up = up
    _follow_link(before)


def set_switch_state(vport: NicVport, adapter: Adapter[Hca], state: VportAdminState) -> None:
    """Set a vPort's state (up, down, or follow the cable) on request of its switch's manager.

    If the vPort goes up or down thereby, the function gets PORT_CHANGE and notifies the wire and
    the switch.
    """
    before = _links(adapter)
    vport.switch_state = state
    _follow_link(before)


def set_enabled(vhca: Vhca[Hca], *, enabled: bool) -> None:
    """Let a virtual function's driver start, or forbid it, on request of the function's manager.

    On InfiniBand its end port gets or loses the link.
    """
    vhca.may_begin = enabled
    node = vhca.node
    if node is not None and node.model.port_type is PortType.IB:
        before = _links(node.adapter)
        node.ib.is_enabled = enabled
        node.ib.follow_link()
        _follow_link(before)


def set_policy(hca: Hca, policy: VportPolicy) -> None:
    """Set the policy for the link of a virtual function's InfiniBand end port, for its manager.

    If the end port goes up or down thereby, the function gets PORT_CHANGE and notifies the wire.
    """
    before = _links(hca.adapter)
    hca.vhca.hca_vport.policy = policy
    hca.ib.follow_link()
    _follow_link(before)


def _follow_physical(vhca: Vhca[Hca]) -> None:
    """Update the end ports of virtual functions after a change of the InfiniBand physical port."""
    if vhca.adapter.model.port_type is PortType.IB and vhca.is_manager:
        for node in vhca.adapter.nodes():
            if node.vhca is not vhca:
                node.ib.follow_link()


def take_down(hca: Hca) -> None:
    """Disable a failed function's port or vPort until it restarts, and notify wire and switch.

    A cable that is plugged in meanwhile does not bring the link up. The port of the only function
    of an adapter is disabled, and an InfiniBand end port, which is the function's own. Otherwise
    other functions keep the port. The failed function gets no event from now on; end ports behind
    its port get PORT_CHANGE.
    """
    hca.events.subscribers.clear()
    others = [before for before in _links(hca.adapter) if before.node is not hca]
    is_eth = hca.model.port_type is PortType.ETH
    if is_eth:
        hca.nic_vport.admin_up = False
    if not is_eth or len(hca.adapter.vhcas) == 1:
        hca.port.set_admin(up=False)
        _follow_physical(hca.vhca)
    announce(hca)
    _follow_link(others)


class _LinkBefore(NamedTuple):
    """The link of a function before a change."""

    node: Hca
    is_up: bool
    """Whether it could send and receive."""
    has_link: bool
    """Whether the physical link was up, which a subnet manager may not have activated."""


def _links(adapter: Adapter[Hca]) -> list[_LinkBefore]:
    """Return the links of the adapter's functions."""
    return [_LinkBefore(node, node.vport.is_up, _has_link(node)) for node in adapter.nodes()]


def _has_link(hca: Hca) -> bool:
    return hca.ib.has_link if hca.model.port_type is PortType.IB else hca.vport.is_up


def _follow_link(links: list[_LinkBefore]) -> None:
    """Raise PORT_CHANGE at each function whose vPort differs from ``links``.

    Each of them also notifies the wire and the switch, and so does one whose physical link alone
    has changed, as without a manager that has activated it.
    """
    for hca, was_up, had_link in links:
        up = hca.vport.is_up
        if up != was_up:
            log.info("%s: link %s", hca.model.name, "up" if up else "down")
            _raise_port_change(hca.events, PortChange.ACTIVE if up else PortChange.DOWN)
            announce(hca)
        elif _has_link(hca) != had_link:
            announce(hca)


def announce(hca: Hca) -> None:
    """Notify the wire and the switch that the port is up or down, or has other addresses.

    The driver gets no event from here.
    """
    hca.wire.port_changed(hca)
    hca.switch.vport_changed(hca)


def reregister(events: Events) -> None:
    """Ask the guest to register again: a new subnet manager lacks the old registrations."""
    _raise_port_change(events, PortChange.CLIENT_REREG)


def _raise_port_change(events: Events, change: PortChange) -> None:
    data = eqe_port_state.new(port={"port_num": 1})
    eq_engine.raise_event(events, EventType.PORT_CHANGE, bytes(data), change)


def _few(table: Table[Object], limit: int = 8) -> str:
    names = [f"{item.handle:#x}" for item, _ in zip(table, range(limit))]
    return ", ".join(names) + (", ..." if len(table) > limit else "")
