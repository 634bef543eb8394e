"""The table pipeline of an embedded switch: ingress ACL, forwarding database (FDB), egress ACL.

The ingress ACL belongs to the sending vPort, the egress ACL to a receiving one. A packet that
misses in an ACL passes unchanged. A packet of a vPort that misses in the FDB leaves by the uplink;
one of the uplink goes to the manager (Linux 81848731ff40). Registers C stay with the packet: later
tables match what earlier entries have written. ``EswVport.reg_c_id`` selects the registers that the
receiving vPort's own tables see.

Switches of a board can share an FDB, so an entry may lead to a vPort of another switch. The ACLs
are always those of the vPort's own switch. An egress ACL may forward a packet to another vPort,
whose egress ACL is then skipped.

Source: PRM "E-Switch"; core/esw/acl/ingress_ofld.c, core/eswitch_offloads.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.adapter.adapter import MANAGER
from emu.device.engine.esw.sharing import switch_behind
from emu.device.engine.esw.uplinks import first_tables
from emu.device.engine.eth.steering.domain import MAX_DELIVERIES
from emu.device.engine.eth.steering.packet_context import (
    MAX_SEGMENTED_PACKETS,
    PacketContext,
    after,
    apart,
    decision_on,
    each_of,
    through,
)
from emu.device.objects.eth.flow.action import FDB_DEFAULT, VportTarget
from emu.device.objects.eth.flow.domain import Decision, FlowDomain
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import UPLINK, FrameError, Marked, source_of
from emu.device.port.eth.vlan import pad
from emu.device.rounds.costs import STEPS_PER_COPY, STEPS_PER_DECISION
from emu.device.rounds.portions import Portions
from layouts.enums.modify_header import ModifyField

if TYPE_CHECKING:
    from emu.device.state.eswitch import EswVport
    from emu.device.state.hca import Hca

_REG_C_0: Final = ModifyField.METADATA_REG_C_0


class VportDelivery(NamedTuple):
    """A frame and the vPort that receives it."""

    target: VportTarget
    frame: Frame


Give = Callable[[VportTarget, Frame], object]
"""Delivers a frame to a vPort."""


def forward(manager: Hca, source_port: int, frame: Frame, give: Give) -> Portions[None] | None:
    """Forward a frame of one of the switch's vPorts, uplink included, to its receivers.

    Return a generator of the remaining work, which yields while the round's budget is used up.
    Return None if all work is done: one vPort received the whole frame, or none did. Meters and
    samplers see each packet of a super-frame separately, at the time when it passes. A frame
    without complete headers is dropped. If an entry's change is impossible for a packet, that
    packet and the later ones of its super-frame are dropped.

    The work is charged to the manager's budget.
    """
    eswitch, budget, vhca = manager.eswitch, manager.budget, manager.vhca
    assert eswitch is not None
    adapter = vhca.adapter
    try:
        packet = PacketContext(frame, source_of(source_port, vhca.number))
        headers, ingress = packet.headers, eswitch.vport(source_port).ingress
        if ingress.root is not None:
            passed = through(ingress, packet, headers, budget)
            if passed is None:
                return None
            headers = passed
        fdb, root = eswitch.fdb, None
        if eswitch.foreign_root is not None or adapter.board.lag is not None:
            fdb, root = first_tables(manager, source_port, frame)
        clock = None if packet.packets > 1 else manager.clock
        decision = decision_on(fdb, packet, headers, budget, root, clock)
        deliveries = decision.deliveries
        if decision.asks is None and not deliveries:
            return None
        steps = decision.rewrites[0] if decision.rewrites else None
        if (
            len(deliveries) == 1
            and (steps is None or not steps.needs_whole)
            and budget.steps <= budget.limit
        ):
            target, port = deliveries[0][0], adapter.number
            assert isinstance(target, VportTarget)  # the FDB leads to tables and vPorts only
            if target is FDB_DEFAULT:
                target = _default_of(source_port == UPLINK, port)
            changed = headers if steps is None else after(headers, steps, budget)
            vport = eswitch.vport(target.number) if target.port == port else None
            if vport is None or vport.egress.root is not None or len(changed.frame) > MAX_BYTES:
                for to, what in _arrivals(manager, port, packet, target, changed):
                    give(to, what)
            elif (
                changed.frame is frame.data
                and target.number != UPLINK
                and (source_port != UPLINK or not vport.reg_c_id)
            ):  # a copy would differ in the queue only; a segment's frame has other receivers
                frame.source_port, frame.parsed = source_port, packet.parsed
                if vport.reg_c_id:
                    registers = changed.registers
                    frame.registers = _seen(registers, vport.reg_c_id) if registers else None
                give(target, frame)
            else:
                what = _frame(frame, changed, vport.reg_c_id, target.number)
                if what.data is frame.data:
                    what.parsed = packet.parsed
                give(target, what)
            return None
    except FrameError:
        return None
    default = _default_of(source_port == UPLINK, adapter.number)
    return _forward_to_many(manager, (fdb, root), packet, headers, decision, default, give)


@cache
def _default_of(is_from_uplink: bool, port: int) -> VportTarget:
    """Return the receiver of packets that miss in the FDB of a physical port's switch."""
    return VportTarget(MANAGER if is_from_uplink else UPLINK, port)


def _forward_to_many(
    manager: Hca, tables: tuple[FlowDomain, FlowTable | None], packet: PacketContext,
    headers: Marked, decision: Decision, default: VportTarget, give: Give,
) -> Portions[None]:  # fmt: skip
    """Forward a frame that has several receivers or that stands for several packets.

    ``tables`` are the FDB and its root table for this frame; ``decision`` is their decision so far.
    ``default`` receives packets that miss.
    Yields while the round's budget is used up. Copies beyond MAX_DELIVERIES, and packets beyond
    MAX_SEGMENTED_PACKETS, are dropped.
    """
    budget, port = manager.budget, manager.adapter.number
    is_apart = decision.asks is not None
    left, sent_on = MAX_SEGMENTED_PACKETS, 0
    try:
        for one, before in apart(packet, headers, budget) if is_apart else ((packet, headers),):
            if is_apart:
                while budget.steps > budget.limit:
                    yield
                budget.charge(STEPS_PER_DECISION)
                fdb, root = tables
                decision = decision_on(fdb, one, before, budget, root, manager.clock)
            for at, (target, _) in enumerate(decision.deliveries):
                assert isinstance(target, VportTarget)
                if target is FDB_DEFAULT:
                    target = default
                steps = decision.rewrites[at] if decision.rewrites else None
                packets: Iterable[tuple[PacketContext, Marked]] = ((one, before),)
                if steps is not None and steps.needs_whole:
                    if one.packets > left:
                        continue
                    left -= one.packets
                    packets = each_of(one, before, budget)
                for each, now in packets:
                    while budget.steps > budget.limit:
                        yield
                    if at:
                        budget.charge(STEPS_PER_COPY)
                    for to, what in _arrivals(
                        manager, port, each, target, after(now, steps, budget)
                    ):
                        if to is not target:
                            sent_on += 1
                            budget.charge(STEPS_PER_COPY)
                        if sent_on <= MAX_DELIVERIES:
                            give(to, what)
    except FrameError:
        return


def _arrivals(
    manager: Hca, port: int, packet: PacketContext, target: VportTarget, headers: Marked
) -> Iterable[VportDelivery]:
    """Return the receivers of a packet that the FDB forwards to a vPort; empty if none.

    The receiver is that vPort, or the vPorts that its egress ACL chooses. Empty when the ACL drops
    the packet, or when the other switch has no working manager. ``port`` is the port of the
    manager's own switch.
    """
    is_own = target.port == port
    eswitch = (
        manager.eswitch if is_own else switch_behind(manager.adapter, manager.eswitch, target.port)
    )
    if eswitch is None:
        return ()
    vport, budget = eswitch.vport(target.number), manager.budget
    if vport.egress.root is None:
        return _arrival(packet, vport, target, headers)
    decision = decision_on(vport.egress, packet, headers, budget)
    if decision.allowed:
        headers = after(headers, decision.allowed_rewrites, budget)
    if decision.allowed or (decision.missed and not decision.deliveries):
        return _arrival(packet, vport, target, headers)
    arrivals: list[VportDelivery] = []
    for at, (other, _) in enumerate(decision.deliveries):
        assert isinstance(other, VportTarget)  # an egress ACL leads to tables and vPorts only
        steps = decision.rewrites[at] if decision.rewrites else None
        eswitch = switch_behind(manager.adapter, manager.eswitch, other.port)
        if eswitch is not None:
            receiver = eswitch.vport(other.number)
            arrivals += _arrival(packet, receiver, other, after(headers, steps, budget))
    return arrivals


def _arrival(
    packet: PacketContext, vport: EswVport, target: VportTarget, headers: Marked
) -> tuple[VportDelivery, ...]:
    """Return the frame for a vPort; empty, so dropped, if a change made it exceed MAX_BYTES."""
    if len(headers.frame) > MAX_BYTES:
        return ()
    return (VportDelivery(target, _frame(packet.frame, headers, vport.reg_c_id, target.number)),)


def _frame(frame: Frame, headers: Marked, reg_c_id: int, vport: int) -> Frame:
    """Return the frame that leaves the switch, padded, with the registers that the vPort may see.

    The vPort sees the registers C of its ``reg_c_id``; the uplink sees none.
    """
    registers = None
    if vport != UPLINK and reg_c_id:
        registers = _seen(headers.registers, reg_c_id)
    return Frame(
        pad(headers.frame), frame.gso_size, frame.checked, frame.filled,
        source_port=headers.source_port, registers=registers,
    )  # fmt: skip


def _seen(registers: dict[int, int], reg_c_id: int) -> dict[int, int] | None:
    """Return the registers C that ``reg_c_id`` selects; None without any."""
    return {
        number: value
        for number, value in registers.items()
        if number >= _REG_C_0 and reg_c_id >> number - _REG_C_0 & 1
    } or None
