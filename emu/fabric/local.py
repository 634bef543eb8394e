"""The fabric inside one process: functions by LID, and datagrams from one to another.

Connected queue pairs of functions in the same process find each other through ``node`` and exchange
whole messages; only datagrams are carried here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emu.engine import datagram as ud
from emu.engine.datagram import Datagram, Origin
from layouts.enums import QpType

if TYPE_CHECKING:
    from emu.hca import Hca
    from emu.objects import Qp


class LocalFabric:
    """Implements :class:`emu.ports.Wire` for the functions of this process."""

    def __init__(self) -> None:
        self._nodes: dict[int, Hca] = {}

    def attach(self, hca: Hca) -> None:
        """The function is reachable under its port's LID; after a reset its new self is."""
        self._nodes[hca.port.lid] = hca

    def node(self, lid: int) -> Hca | None:
        """The function with this LID, when it is in this process."""
        return self._nodes.get(lid)

    def datagram(self, source: Hca, packet: Datagram, origin: Origin) -> None:
        """Carry a datagram to whoever it is for; nobody hears when there is none."""
        for hca, qp in list(self._receivers(source, packet)):
            if hca.port.is_up and ud.receive(hca, qp, packet, origin):
                hca.port.count_received(1, packet.length)

    def _receivers(self, source: Hca, packet: Datagram) -> Iterator[tuple[Hca, Qp]]:
        to = packet.to
        if ud.MULTICAST_LID <= to.lid < ud.PERMISSIVE_LID:
            yield from self._group(to.gid)
            return
        hca = source if to.lid == ud.PERMISSIVE_LID else self._nodes.get(to.lid)
        if hca is None:
            return
        qp = hca.special_qps.get(to.qpn) if to.qpn in (0, 1) else hca.qps.get(to.qpn)
        if qp is not None and (to.qpn in (0, 1) or qp.st is QpType.UD):
            yield hca, qp

    def _group(self, gid: bytes | None) -> Iterator[tuple[Hca, Qp]]:
        """Everyone attached, the sender's own queue pair too: the stack sorts that out."""
        for hca in self._nodes.values():
            for qp in hca.mcgs.get(gid or b"", ()):
                yield hca, qp
