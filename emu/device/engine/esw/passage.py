"""A frame's way through the tables of an embedded switch: ACL, forwarding database (FDB), ACL.

The ingress ACL is that of the vPort which sends, the egress ACL that of one which gets the frame.
What no entry of an ACL matches passes; what no entry of the FDB matches is lost. Registers C go
along: what an entry has written there, later ones match, as far as the vPort's own tables of
received packets (``EswVport.reg_c_id``).

Switches of a board can share an FDB, and the tables of one may lead to vPorts of another. The ACLs
are those of the vPort's own switch. An egress ACL may send a packet on to another vPort, which gets
it without passing an ACL again.

Source: PRM "E-Switch"; core/esw/acl/ingress_ofld.c, core/eswitch_offloads.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.esw.sharing import switch_behind
from emu.device.engine.esw.uplinks import first_tables
from emu.device.engine.eth.steering.domain import MAX_DELIVERIES, MOST_ASKED
from emu.device.engine.eth.steering.passing import (
    MOST_CUT,
    Packet,
    after,
    decision_on,
    each_of,
    through,
)
from emu.device.objects.eth.flow import Decision, FlowDomain, FlowTable, VportTarget
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import UPLINK, Marked, source_of
from emu.device.port.eth.vlan import pad
from layouts.eth_enums import ModifyField

if TYPE_CHECKING:
    from emu.device.ports import Clock
    from emu.device.rounds.budget import Round
    from emu.device.state.eswitch import EswVport
    from emu.device.state.hca import Hca

_REG_C_0: Final = ModifyField.METADATA_REG_C_0


class Arrival(NamedTuple):
    """What a vPort gets."""

    target: VportTarget
    frame: Frame


def passages(manager: Hca, source_port: int, frame: Frame) -> Iterator[Arrival]:
    """Carry a frame of a vPort of the manager's switch, the cable's included, to those that get it.

    Meters and samplers look at each packet of a super-frame by itself, at the time of the clock.

    Charges what it costs. Raises FrameError for a frame without complete headers.
    """
    eswitch, round_ = manager.eswitch, manager.round
    assert eswitch is not None
    packet = Packet(frame, source_of(source_port, manager.vhca.number))
    headers = through(eswitch.vport(source_port).ingress, packet, packet.headers, round_)
    if headers is None:
        return
    fdb, root, adapter = eswitch.fdb, None, manager.adapter
    if eswitch.foreign_root is not None or adapter.board.lag is not None:
        fdb, root = first_tables(manager, source_port, frame)
    decision = decision_on(fdb, packet, headers, round_, (), root)
    if decision.asks is None:
        crossing = [(packet, headers, decision)]
    else:
        crossing = _asked(fdb, root, packet, headers, decision, round_, manager.clock)
    left, sent_on = MOST_CUT, 0
    for one, before, decided in crossing:
        for at, (target, _) in enumerate(decided.deliveries):
            assert isinstance(target, VportTarget)  # the FDB leads to tables and vPorts only
            steps = decided.rewrites[at] if decided.rewrites else None
            sent = [(one, before)]
            if steps is not None and steps.needs_whole:
                sent = each_of(one, before, left, round_)
                left -= len(sent)
            for each, now in sent:
                changed = after(now, steps, round_)
                for arrival in _arrivals(manager, adapter.number, each, target, changed):
                    sent_on += arrival.target is not target
                    if sent_on <= MAX_DELIVERIES:
                        yield arrival


def _asked(
    fdb: FlowDomain,
    root: FlowTable | None,
    packet: Packet,
    headers: Marked,
    decision: Decision,
    round_: Round,
    clock: Clock,
) -> list[tuple[Packet, Marked, Decision]]:
    """What a frame is made of, each with the tables' decision after all that they ask for."""
    whole = (
        each_of(packet, headers, MOST_CUT, round_) if packet.packets > 1 else [(packet, headers)]
    )
    now_ns = clock.now_ns()
    decisions = []
    for one, before in whole:
        decided = decision
        answers: tuple[int, ...] = ()
        while decided.asks is not None and len(answers) < MOST_ASKED:
            answer = decided.asks.answer(one.octets, before.l3, now_ns)
            answers = (*answers, answer)
            decided = decision_on(fdb, one, before, round_, answers, root)
        if decided.asks is None:
            decisions.append((one, before, decided))
    return decisions


def _arrivals(
    manager: Hca, port: int, packet: Packet, target: VportTarget, headers: Marked
) -> Iterable[Arrival]:
    """Who gets a packet that the FDB leads to a vPort: that one, or those of its egress ACL.

    ``port`` is the one of the manager's own switch.
    """
    is_own = target.port == port
    eswitch = manager.eswitch if is_own else switch_behind(manager, target.port)
    if eswitch is None:
        return ()
    vport, round_ = eswitch.vport(target.number), manager.round
    if vport.egress.root is None:
        return _arrival(packet, vport, target, headers)
    decision = decision_on(vport.egress, packet, headers, round_)
    if decision.allowed:
        headers = after(headers, decision.allowed_rewrites, round_)
    if decision.allowed or (decision.missed and not decision.deliveries):
        return _arrival(packet, vport, target, headers)
    arrivals: list[Arrival] = []
    for at, (other, _) in enumerate(decision.deliveries):
        assert isinstance(other, VportTarget)  # an egress ACL leads to tables and vPorts only
        steps = decision.rewrites[at] if decision.rewrites else None
        eswitch = switch_behind(manager, other.port)
        if eswitch is not None:
            place = eswitch.vport(other.number)
            arrivals += _arrival(packet, place, other, after(headers, steps, round_))
    return arrivals


def _arrival(
    packet: Packet, vport: EswVport, target: VportTarget, headers: Marked
) -> tuple[Arrival, ...]:
    """What a vPort gets of a packet; none if that is too long."""
    if len(headers.frame) > MAX_BYTES:
        return ()
    return (Arrival(target, _frame(packet.frame, headers, vport.reg_c_id, target.number)),)


def _frame(frame: Frame, headers: Marked, reg_c_id: int, vport: int) -> Frame:
    """The frame that leaves the switch, with the registers that the vPort gets."""
    registers = None
    if vport != UPLINK and reg_c_id:
        registers = {
            number: value
            for number, value in headers.registers.items()
            if number >= _REG_C_0 and reg_c_id >> number - _REG_C_0 & 1
        }
    return Frame(
        pad(headers.frame), frame.gso_size, frame.checked, frame.filled,
        source_port=headers.source_port, registers=registers,
    )  # fmt: skip
