"""The switch that joins the subnet's ports, for subnet management packets (SMPs).

Source: IBTA volume 1, 14.2.2 (directed routes), 18.2.4 (a switch's management port); core/smi.c.

A known port of the subnet keeps a port of the switch. The manager uses port 0. The switch exists
only for SMPs: other packets are forwarded between ports without it. The ends of a directed route
have the permissive LID on the wire; the fabric uses the manager's LID instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.ib import sma
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import DEFAULT_PKEY, SM_LID
from emu.server.net.ib.sm.agent import ATTRIBUTES, Ports, SwitchSmpRequest
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import DIRECTION, MAD_BYTES, Method, SmpAttr, smp

log = logging.getLogger(__name__)

MIN_PORTS = 40
"""Number of ports of an HDR switch."""
MAX_PORTS = 254
_QP0 = 0


class SmpSwitch:
    """Answers SMPs at the manager's LID, and forwards directed ones between ports."""

    def __init__(self, port: EndPort, send: Callable[[Datagram, Origin], None]) -> None:
        """Create the switch with management port ``port``; ``send`` sends a datagram to its LID."""
        self.ports = Ports(replace(port, num_ports=MIN_PORTS))
        """The connected ports."""
        self._send = send

    @property
    def port(self) -> EndPort:
        """The management port."""
        return self.ports.own

    def connect(self, ports: Iterable[EndPort]) -> None:
        """Connect exactly these ports of the subnet, which are up; others lose their connection."""
        self.ports.connect(list(ports), limit=MAX_PORTS)

    def receive(self, data: bytes, to: Destination, origin: Origin) -> None:
        """Handle a datagram for QP0 at the manager's LID: answer, or forward a directed SMP.

        Drop a datagram that is no SMP, not from QP0, or not from a connected port.
        """
        entry = self.ports.number_of(origin.lid)
        if origin.qpn != _QP0 or not sma.is_smp(data) or entry is None:
            log.debug("LID %#x: no SMP from a port of the switch: dropped", origin.lid)
            return
        mad = smp.view(bytearray(data))
        if mad.mgmt_class != sma.DIRECTED:
            self._answer(mad, origin.lid, entry)
        elif mad.status & DIRECTION:
            self._forward_response(mad)
        elif sma.turn_back(mad, entry):
            self._answer(mad, origin.lid, entry)
        else:
            self._forward_request(mad, entry)

    def _answer(self, mad: smp, lid: int, entry: int) -> None:
        """Respond to a Get or Set for the switch itself, and repress a Trap with a Notice.

        Other methods are ignored.
        """
        if mad.method in (Method.GET, Method.SET):
            request = SwitchSmpRequest(self.ports, entry)
            self._deliver(sma.respond(ATTRIBUTES, request, bytes(mad)), lid)
        elif mad.method == Method.TRAP and mad.attr_id == SmpAttr.NOTICE:
            mad.method = Method.TRAP_REPRESS  # an unacknowledged trap is sent again (IBTA 13.4.9)
            self._deliver(bytes(mad), lid)

    def _forward_request(self, mad: smp, entry: int) -> None:
        """Forward a directed request to the end of its route, one switch away (C14-9:2).

        A route that starts at the switch was forwarded here by its sender's LID (C14-9:1). Drop a
        request with another hop count or pointer, with a DrDLID, or without a port behind.
        """
        is_from_here = mad.dr_slid != PERMISSIVE_LID
        hops = 1 if is_from_here else 2
        if mad.dr_dlid != PERMISSIVE_LID or (mad.hop_ptr, mad.hop_cnt) != (hops - 1, hops):
            log.debug("SMP with hop %d of %d: dropped", mad.hop_ptr, mad.hop_cnt)
            return
        target = self.ports.behind(mad.initial_path[hops])
        if target is not None:
            if not is_from_here:
                sma.note_return(mad, entry)
            mad.hop_ptr = hops
            self._deliver(bytes(mad), target.lid)

    def _forward_response(self, mad: smp) -> None:
        """Forward a response to the start of its route (C14-13:2, C14-13:3).

        Drop a response with a wrong hop count or pointer, or without a port behind.
        """
        is_from_here = mad.dr_slid != PERMISSIVE_LID
        hops = 1 if is_from_here else 2
        if (mad.hop_ptr, mad.hop_cnt) != (hops, hops):
            log.debug("returning SMP with hop %d of %d: dropped", mad.hop_ptr, mad.hop_cnt)
            return
        number = self.ports.number_of(mad.dr_slid) if is_from_here else mad.return_path[1]
        target = None if number is None else self.ports.behind(number)
        if target is not None:
            mad.hop_ptr -= 1
            self._deliver(bytes(mad), target.lid)

    def _deliver(self, data: bytes, lid: int) -> None:
        """Send an SMP from the manager's QP0 to QP0 of a LID."""
        to = Destination(_QP0, 0, lid, sl=0, path_bits=0)
        origin = Origin(SM_LID, _QP0, DEFAULT_PKEY, 0, self.port.gid)
        self._send(Datagram(to, [memoryview(data)], MAD_BYTES, None, False), origin)
