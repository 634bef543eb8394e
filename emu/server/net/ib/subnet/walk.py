"""Forwarding of subnet management packets between nodes, and the nodes' handling.

Source: IBTA volume 1, 14.2.2 (directed routes: C14-9 for requests, C14-13 for responses); Linux
core/smi.c. SMPs need links, but no active ports (7.2.7). A directed route may start behind LIDs
(DrSLID), but not continue by LIDs (DrDLID).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from emu.device.port.ib import sma
from emu.device.ports import Clock
from emu.device.rounds.costs import STEPS_PER_LINK_OF_SMP
from emu.server.net.ib.subnet.agent import SmpRequest, answer, may
from emu.server.net.ib.subnet.nodes import NO_PORT, Cables, PortPosition, SimNode
from emu.server.net.ib.subnet.traps import Traps
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import DIRECTION, Method, smp

log = logging.getLogger(__name__)

MAX_LINKS: Final = 128
"""Maximum links of an SMP's route: twice the longest directed route; tables may contain loops."""
_MAX_HOPS: Final = 63


@dataclass(slots=True)
class SmpInFlight:
    """An SMP in flight, and the LIDs of its local route header."""

    mad: smp
    dlid: int
    slid: int


class Walk:
    """Forwards SMPs through a subnet."""

    def __init__(
        self,
        clock: Clock,
        cables: Cables,
        deliver: Callable[[int, bytes, int, int], None],
        traps: Traps,
    ) -> None:
        """Store ``deliver``, which sends an SMP to a function: number, bytes, source and
        destination LID.

        ``traps`` is notified of TrapRepress and of wrong M_Keys.
        """
        self._clock = clock
        self._cables = cables
        self._deliver = deliver
        self._traps = traps

    def leave(self, place: PortPosition, data: bytes, dlid: int, slid: int) -> None:
        """Send an SMP from a node's port, hop by hop; port 0 is a switch itself.

        Nodes handle, answer or forward it on the way. Drop the SMP at a port without a link and
        after MAX_LINKS. The budget is charged for each link.
        """
        smp_ = SmpInFlight(smp.view(bytearray(data)), dlid, slid)
        node, port = place
        if port == 0:
            port = self._exit(self._cables.nodes[node], smp_) or NO_PORT
        for _ in range(MAX_LINKS):
            self._clock.budget.charge(STEPS_PER_LINK_OF_SMP)
            far = self._cables.peer(node, port)
            if far is None:
                log.debug("SMP at node %d: no link at port %d: dropped", node, port)
                return
            node = far[0]
            exit_ = self._arrive(self._cables.nodes[node], far[1], smp_)
            if exit_ is None:
                return
            port = exit_
        log.debug("SMP at node %d: too many hops: dropped", node)

    def _arrive(self, node: SimNode, entry: int, smp_: SmpInFlight) -> int | None:
        """Handle an SMP at a node; return its output port, or None where it ends.

        A guest's function receives it if the LID matches or is permissive. Simulated nodes answer
        their own and forward others.
        """
        mad = smp_.mad
        if node.function is not None:
            if smp_.dlid == PERMISSIVE_LID or node.has_lid(entry, smp_.dlid):
                self._deliver(node.function, bytes(mad), smp_.slid, smp_.dlid)
            return None
        if smp_.dlid != PERMISSIVE_LID and not node.has_lid(entry, smp_.dlid):
            return self._exit(node, smp_) if node.is_switch else None
        if mad.mgmt_class != sma.DIRECTED:
            return self._answer(node, entry, smp_)
        if mad.status & DIRECTION:
            return self._forward_response(node, smp_)
        return self._forward_request(node, entry, smp_)

    def _exit(self, node: SimNode, smp_: SmpInFlight) -> int | None:
        """Return a switch's output port for the SMP's LID; None if the table drops it."""
        tables = node.tables
        port = tables.exit_to(smp_.dlid) if tables is not None else NO_PORT
        return None if port in (0, NO_PORT) else port

    def _forward_request(self, node: SimNode, entry: int, smp_: SmpInFlight) -> int | None:
        """Forward or answer a directed request (C14-9); return its output port.

        None drops it: more than 63 hops, a DrDLID, or a hop pointer that does not fit.
        """
        mad = smp_.mad
        hops, at = mad.hop_cnt, mad.hop_ptr
        if hops > _MAX_HOPS or mad.dr_dlid != PERMISSIVE_LID:
            return None
        if at == 0 and hops and mad.dr_slid != PERMISSIVE_LID and node.is_switch:
            mad.hop_ptr = 1
            return self._directed(smp_, mad.initial_path[1])
        if 0 < at < hops and node.is_switch:
            sma.note_return(mad, entry)
            mad.hop_ptr = at + 1
            return self._directed(smp_, mad.initial_path[at + 1])
        if at == hops and (hops or mad.dr_slid != PERMISSIVE_LID):
            if hops:
                sma.note_return(mad, entry)
            return self._answer(node, entry, smp_)
        log.debug("SMP at %s with hop %d of %d: dropped", node.line.name, at, hops)
        return None

    def _forward_response(self, node: SimNode, smp_: SmpInFlight) -> int | None:
        """Forward a directed response (C14-13); return its output port.

        None drops it: an adapter, a wrong hop pointer, or a route that starts here. Simulated nodes
        send no requests.
        """
        mad = smp_.mad
        at = mad.hop_ptr
        if not node.is_switch or not 1 <= at <= mad.hop_cnt <= _MAX_HOPS:
            return None
        mad.hop_ptr = at - 1
        if at > 1:
            return self._directed(smp_, mad.return_path[at - 1])
        if mad.dr_slid == PERMISSIVE_LID:
            return None
        smp_.dlid, smp_.slid = mad.dr_slid, node.ports[0].info.lid
        return self._exit(node, smp_)

    def _directed(self, smp_: SmpInFlight, port: int) -> int:
        smp_.dlid = smp_.slid = PERMISSIVE_LID
        return port

    def _answer(self, node: SimNode, entry: int, smp_: SmpInFlight) -> int | None:
        """Respond to an SMP for the node; return the response's output port.

        None without a response: a method that needs none, or a wrong M_Key, which is reported by a
        trap. TrapRepress ends a trap of the node.
        """
        mad = smp_.mad
        if mad.method not in (Method.GET, Method.SET, Method.TRAP_REPRESS):
            return None
        request = SmpRequest(self._cables, node, entry, self._clock.now_ns())
        if not may(request, mad):
            log.debug("SMP to %s with a wrong M_Key: no response", node.line.name)
            self._traps.bad_mkey(node, entry, mad, smp_.slid)
            return None
        if mad.method == Method.TRAP_REPRESS:
            self._traps.repressed(node.number, mad.tid)
            return None
        back = smp_.mad = smp.view(bytearray(answer(request, bytes(mad))))
        if back.mgmt_class == sma.DIRECTED:
            back.status |= DIRECTION
            if back.hop_cnt:
                return self._directed(smp_, entry)
            smp_.dlid = back.dr_slid
        else:
            smp_.dlid = smp_.slid
        smp_.slid = node.end(entry).info.lid
        return self._exit(node, smp_) if node.is_switch else entry
