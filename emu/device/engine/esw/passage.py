"""A frame's way through the tables of an embedded switch: ACL, forwarding database (FDB), ACL.

The ingress ACL is that of the vPort which sends, the egress ACL that of one which gets the frame.
What no entry of an ACL matches passes; what no entry of the FDB matches is lost. Registers C go
along: what an entry has written there, later ones match, as far as the vPort's own tables of
received packets (``EswVport.reg_c_id``).

Source: PRM "E-Switch"; core/esw/acl/ingress_ofld.c, core/eswitch_offloads.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth.steering.domain import MOST_ASKED
from emu.device.engine.eth.steering.passing import (
    MOST_CUT,
    Packet,
    after,
    decision_on,
    each_of,
    through,
)
from emu.device.objects.eth.flow import Decision, FlowDomain, VportTarget
from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.headers import UPLINK, Marked
from emu.device.port.eth.vlan import pad
from layouts.eth_enums import ModifyField

if TYPE_CHECKING:
    from emu.device.ports import Clock
    from emu.device.rounds.budget import Round
    from emu.device.state.eswitch import Eswitch

_REG_C_0: Final = ModifyField.METADATA_REG_C_0


class Arrival(NamedTuple):
    """What a vPort gets."""

    vport: int
    frame: Frame


def passages(
    eswitch: Eswitch, source_port: int, frame: Frame, round_: Round, clock: Clock
) -> Iterator[Arrival]:
    """Carry a frame of a vPort, the cable's included, to the vPorts that get it.

    Meters and samplers look at each packet of a super-frame by itself, at the time of ``clock``.

    Charges what it costs. Raises FrameError for a frame without complete headers.
    """
    packet = Packet(frame, source_port)
    headers = through(eswitch.vport(source_port).ingress, packet, packet.headers, round_)
    if headers is None:
        return
    decision = decision_on(eswitch.fdb, packet, headers, round_)
    if decision.asks is None:
        crossing = [(packet, headers, decision)]
    else:
        crossing = _asked(eswitch.fdb, packet, headers, decision, round_, clock)
    left = MOST_CUT
    for one, before, decided in crossing:
        for at, (target, _) in enumerate(decided.deliveries):
            assert isinstance(target, VportTarget)  # the FDB leads to tables and vPorts only
            steps = decided.rewrites[at] if decided.rewrites else ()
            sent = [(one, before)]
            if any(step.needs_whole for step in steps):
                sent = each_of(one, before, left, round_)
                left -= len(sent)
            for each, now in sent:
                changed = after(now, steps, round_)
                arrival = _arrival(eswitch, each, target.number, changed, round_)
                if arrival is not None:
                    yield arrival


def _asked(
    fdb: FlowDomain,
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
    found = []
    for one, before in whole:
        decided = decision
        answers: tuple[int, ...] = ()
        while decided.asks is not None and len(answers) < MOST_ASKED:
            answer = decided.asks.answer(one.octets, before.l3, now_ns)
            answers = (*answers, answer)
            decided = decision_on(fdb, one, before, round_, answers)
        if decided.asks is None:
            found.append((one, before, decided))
    return found


def _arrival(
    eswitch: Eswitch, packet: Packet, number: int, headers: Marked, round_: Round
) -> Arrival | None:
    """What a vPort gets of a packet that the FDB leads there."""
    vport = eswitch.vport(number)
    got = through(vport.egress, packet, headers, round_)
    if got is None or len(got.frame) > MAX_BYTES:
        return None
    return Arrival(number, _frame(packet.frame, got, vport.reg_c_id, number))


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
