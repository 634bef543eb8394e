"""The performance management agent of the switch: its ports' counters (IBTA 16.1).

A port of the switch has sent what the port behind it has received, and the reverse. The management
port, and ports with a function of another process behind, count nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from emu.device.port.ib import pma
from emu.device.port.ib.port import IbPort
from emu.server.net.ib.sm.agent import Ports
from layouts.wire.mads import PmaCap

_LINK_DOWNED: Final = "link_downed_counter"
_SENT, _RECEIVED = "xmit", "rcv"


def _seen_from_behind(name: str) -> str:
    """Return the counter of the port behind that counts the same; empty if there is none.

    Errors are those of the port that has seen them.
    """
    if name == _LINK_DOWNED:
        return name
    if not name.endswith(("_data", "_packets")):
        return ""
    if _SENT in name:
        return name.replace(_SENT, _RECEIVED)
    return name.replace(_RECEIVED, _SENT)


class _Counts:
    """Implements :class:`emu.device.port.ib.pma.PortCounts` for a port of the switch."""

    def __init__(self, behind: IbPort | None, base: dict[tuple[int, str], int]) -> None:
        self._behind = behind
        self.base = base

    def value(self, name: str) -> int:
        behind, counter = self._behind, _seen_from_behind(name)
        return pma.value(behind, counter) if behind is not None and counter else 0


class SwitchCounters:
    """Responds for the switch; ``function_at`` returns the port of this process with a LID."""

    def __init__(self, ports: Ports, function_at: Callable[[int], IbPort | None]) -> None:
        self._ports = ports
        self._function_at = function_at
        self._bases: dict[int, tuple[IbPort, dict[tuple[int, str], int]]] = {}
        """By number: the port behind that counted last, and its values when counters were set."""

    def answer(self, data: bytes) -> bytes | None:
        """Return the response to a MAD of 256 bytes; None if neither a Get nor a Set."""
        mask = PmaCap.EXT_WIDTH | PmaCap.ALL_PORT_SELECT
        return pma.respond(self._selected, pma.COUNTERS, mask, data)

    def _selected(self, number: int) -> list[_Counts] | None:
        """Return the counters of the ports that a request selects; None for an invalid port.

        ALL_PORTS selects all ports with a port behind: the others have counted nothing.
        """
        if number == pma.ALL_PORTS:
            return [self._of(port) for port in self._ports.connected]
        return [self._of(number)] if number <= self._ports.own.num_ports else None

    def _of(self, number: int) -> _Counts:
        end = self._ports.behind(number)
        behind = self._function_at(end.lid) if end is not None else None
        if behind is None:
            return _Counts(None, {})
        behind.uncounted.count()
        counted, base = self._bases.get(number, (behind, {}))
        if counted is not behind:  # another port, or one that counts from 0 after a reset
            base = {}
        self._bases[number] = behind, base
        return _Counts(behind, base)
