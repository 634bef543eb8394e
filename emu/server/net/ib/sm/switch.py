"""The switch that joins the subnet's ports, for subnet management packets (SMPs).

Source: IBTA volume 1, 14.2.2 (directed routes), 18.2.4 (a switch's management port); core/smi.c.
A port of the subnet has one of the switch's ports for as long as it is known. The manager sits at
port 0. What SMPs show is all that there is of the switch: other packets go from port to port
by themselves. The ends of a directed route have the permissive LID on the wire; the fabric carries
them with the manager's LID instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from emu.device.port.datagram import Datagram, Destination, Origin
from emu.device.port.ib import sma
from emu.device.port.ib.endport import EndPort
from emu.device.port.ib.port import DEFAULT_PKEY, SM_LID
from emu.server.net.ib.sm.agent import ATTRIBUTES, Ports, SmpRequest
from layouts.wire.bth import PERMISSIVE_LID
from layouts.wire.mads import DIRECTION, MAD_BYTES, Method, SmpAttr, smp

if TYPE_CHECKING:
    from layouts.wire.mads import Smp

log = logging.getLogger(__name__)

MIN_PORTS = 40
"""As a switch for HDR has."""
MAX_PORTS = 254
_QP0 = 0


class SmpSwitch:
    """Answers SMPs at the manager's LID, and takes directed ones from port to port."""

    def __init__(self, port: EndPort, send: Callable[[Datagram, Origin], None]) -> None:
        """``port`` is its management port. ``send`` carries a datagram to the LID that it is to."""
        self._ports = Ports(replace(port, num_ports=MIN_PORTS))
        self._send = send

    @property
    def port(self) -> EndPort:
        """The management port."""
        return self._ports.own

    @property
    def ports(self) -> Ports:
        """What is connected to it."""
        return self._ports

    def connect(self, ports: Iterable[EndPort]) -> None:
        """Ports of the subnet, those that are up; the others have gone or have no link."""
        self._ports.connect(list(ports), limit=MAX_PORTS)

    def receive(self, data: bytes, to: Destination, origin: Origin) -> None:
        """Take a datagram for QP0 at the manager's LID; one that is no SMP for it is lost."""
        entry = self._ports.number_of(origin.lid)
        if origin.qpn != _QP0 or not sma.is_smp(data) or entry is None:
            log.debug("LID %#x: no SMP from a port of the switch: dropped", origin.lid)
            return
        mad = smp.view(bytearray(data))
        if mad.mgmt_class != sma.DIRECTED:
            self._answer(mad, origin.lid, entry)
        elif mad.status & DIRECTION:
            self._take_back(mad)
        elif sma.arrived(mad, entry):
            self._answer(mad, origin.lid, entry)
        else:
            self._take_on(mad, entry)

    def _answer(self, mad: Smp, lid: int, entry: int) -> None:
        """The SMP is for the switch itself."""
        if mad.method in (Method.GET, Method.SET):
            request = SmpRequest(self._ports, entry)
            self._deliver(sma.respond(ATTRIBUTES, request, bytes(mad)), lid)
        elif mad.method == Method.TRAP and mad.attr_id == SmpAttr.NOTICE:
            mad.method = Method.TRAP_REPRESS  # or it is sent again (IBTA 13.4.9)
            self._deliver(bytes(mad), lid)

    def _take_on(self, mad: Smp, entry: int) -> None:
        """Take a request to the end of its route: behind our ports are no switches (C14-9:2).

        When the route begins at the switch, its sender's LID has brought the packet here (C14-9:1).
        """
        is_from_here = mad.dr_slid != PERMISSIVE_LID
        hops = 1 if is_from_here else 2
        if mad.dr_dlid != PERMISSIVE_LID or (mad.hop_ptr, mad.hop_cnt) != (hops - 1, hops):
            log.debug("SMP with hop %d of %d: dropped", mad.hop_ptr, mad.hop_cnt)
            return
        target = self._ports.behind(mad.initial_path[hops])
        if target is not None:
            if not is_from_here:
                sma.note_return(mad, entry)
            mad.hop_ptr = hops
            self._deliver(bytes(mad), target.lid)

    def _take_back(self, mad: Smp) -> None:
        """Take a response to where its route has begun (C14-13:2, C14-13:3)."""
        is_from_here = mad.dr_slid != PERMISSIVE_LID
        hops = 1 if is_from_here else 2
        if (mad.hop_ptr, mad.hop_cnt) != (hops, hops):
            log.debug("returning SMP with hop %d of %d: dropped", mad.hop_ptr, mad.hop_cnt)
            return
        number = self._ports.number_of(mad.dr_slid) if is_from_here else mad.return_path[1]
        target = None if number is None else self._ports.behind(number)
        if target is not None:
            mad.hop_ptr -= 1
            self._deliver(bytes(mad), target.lid)

    def _deliver(self, data: bytes, lid: int) -> None:
        to = Destination(_QP0, 0, lid, sl=0, path_bits=0)
        origin = Origin(SM_LID, _QP0, DEFAULT_PKEY, 0, self.port.gid)
        self._send(Datagram(to, [memoryview(data)], MAD_BYTES, None, False), origin)
