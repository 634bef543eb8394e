"""The points of packets: a wire over the function's own that loses, doubles and mixes up some.

While rules are about packets, messages to a function of the same process go as packets, too: only
then is there something to lose. Datagrams pass ``pkt.tx`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from emu.engine.packets import intake
from emu.engine.packets.link import link_of
from emu.faults.event import Event
from emu.faults.plan import Rule
from emu.faults.vocabulary import Action, Point
from emu.port.ib.framing import parse
from emu.port.packet import SERVICES, BadPacketError, Packet
from emu.ports import Wire
from layouts import bth
from layouts.bth import RESPONSES, Kind, Service

if TYPE_CHECKING:
    from emu.faults.injector import Injector
    from emu.hca import Hca
    from emu.port.ib.datagram import Datagram, Origin

_DEFAULT_RNR_TIMER = 12
_PSN_AT = 9
"""Offset of the 24-bit PSN in a base transport header."""


class FaultyWire:
    """Implements :class:`emu.ports.Wire` over another one."""

    def __init__(self, faults: Injector, inner: Wire) -> None:
        self._faults = faults
        self._inner = inner

    def attach(self, hca: Hca) -> None:
        """As the other."""
        self._inner.attach(hca)

    def port_changed(self, hca: Hca) -> None:
        """As the other."""
        self._inner.port_changed(hca)

    def node(self, lid: int) -> Hca | None:
        """As the other."""
        return self._inner.node(lid)

    def reaches(self, lid: int) -> bool:
        """Everyone is reached by packets."""
        return self._inner.reaches(lid) or self._inner.node(lid) is not None

    def when_room(self, lid: int, callback: Callable[[], None]) -> None:
        """As the other."""
        self._inner.when_room(lid, callback)

    def transmit(self, source: Hca, frame: bytes) -> bool:
        """Carry a packet, unless a rule wants it otherwise."""
        buffer = bytearray(frame)
        try:
            packet = parse(memoryview(buffer))
        except BadPacketError:
            return self._inner.transmit(source, frame)
        send = partial(self._inner.transmit, source)
        values = _values(packet.op.kind, packet.op.service, packet.psn, len(frame))
        values |= {"qpn": packet.qpn, "dlid": packet.dlid, "slid": packet.slid}
        rule = self._faults.packets.rule(Point.PKT_TX, values)
        if rule is not None and rule.action is Action.CORRUPT:
            _corrupt(rule, packet, buffer)
            rule = None
        whole = bytes(buffer)
        return bool(self._faults.packets.carry(rule, Point.PKT_TX, lambda: send(whole)))

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Carry a datagram, unless a rule wants it otherwise."""
        values = _values(Kind.SEND, Service.UD, 0, packet.octets)
        values |= {"qpn": packet.to.qpn, "dlid": packet.to.lid, "slid": origin.lid}
        rule = self._faults.packets.rule(Point.PKT_TX, values)
        if rule is not None:
            data = bytearray(b"".join(packet.data))
            if rule.action is Action.CORRUPT:
                _overwrite(rule, memoryview(data))
                rule = None
            packet = replace(packet, data=(memoryview(bytes(data)),))
        send = partial(self._inner.datagram, source, packet, origin)
        self._faults.packets.carry(rule, Point.PKT_TX, send)


class PacketPoint:
    """What happens to packets, going out and coming in."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults
        self._held: dict[Point, list[Callable[[], object]]] = {}

    def forget(self) -> None:
        """The function was reset: nothing that was held back moves on."""
        self._held.clear()

    def rule(self, point: Point, values: dict[str, Any]) -> Rule | None:
        """The rule that decides about a packet."""
        return self._faults.at(Event(point, values)) if self._faults.wants(point) else None

    def carry(self, rule: Rule | None, point: Point, move: Callable[[], object]) -> object:
        """Let a packet move on as a rule wants it; True when the way is free."""
        result: object = True
        held = self._held.pop(point, [])
        if rule is None:
            result = move()
        elif rule.action is Action.DELAY:
            self._faults.later(rule, move)
        elif rule.action is Action.REORDER:
            self._held[point] = [move]
        elif rule.action is Action.DUPLICATE:
            for _ in range(1 + (rule.count or 1)):
                result = move()
        for late in held:
            late()
        return result

    def arrive(self, packet: Packet, length: int) -> None:
        """As :func:`emu.engine.packets.intake.receive`, unless a rule wants it otherwise."""
        hca = self._faults.hca
        values = _values(packet.op.kind, packet.op.service, packet.psn, length)
        values |= {"qpn": packet.qpn, "dlid": packet.dlid, "slid": packet.slid}
        rule = self.rule(Point.PKT_RX, values)
        if rule is not None:
            # It may stay longer than the frame that it came in.
            packet.payload = memoryview(bytearray(packet.payload))
        if rule is not None and rule.action is Action.RNR:
            self._not_ready(rule, packet)
            return
        if rule is not None and rule.action is Action.CORRUPT:
            _overwrite(rule, packet.payload)
            packet.psn = int((rule.set or {}).get("psn", packet.psn)) & bth.PSN_MASK
            rule = None
        self.carry(rule, Point.PKT_RX, lambda: intake.take(hca, packet, length))

    def _not_ready(self, rule: Rule, packet: Packet) -> None:
        hca = self._faults.hca
        qp = hca.qps.get(packet.qpn)
        if qp is None or packet.op.kind in RESPONSES or SERVICES.get(qp.st) is not Service.RC:
            return
        timer = _DEFAULT_RNR_TIMER if rule.timer is None else rule.timer
        link_of(hca, qp).responder.not_ready(packet, timer)


def _values(kind: Kind, service: Service, psn: int, length: int) -> dict[str, Any]:
    return {"kind": kind, "service": service, "psn": psn, "length": length}


def _overwrite(rule: Rule, payload: memoryview) -> None:
    new = bytes.fromhex(str((rule.set or {}).get("payload", "")))[: len(payload)]
    payload[: len(new)] = new


def _corrupt(rule: Rule, packet: Packet, frame: bytearray) -> None:
    """Change a packet that goes out; ``packet`` is a view of ``frame``."""
    _overwrite(rule, packet.payload)
    psn = (rule.set or {}).get("psn")
    if psn is not None:
        at = bth.lrh.size + (bth.grh.size if packet.grh is not None else 0) + _PSN_AT
        frame[at : at + 3] = (int(psn) & bth.PSN_MASK).to_bytes(3, "big")
