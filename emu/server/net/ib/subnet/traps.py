"""Traps by which switches tell the manager that a link has come or gone (IBTA 14.3, trap 128)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from emu.device.port.ib.sma import CLASS_VERSION
from emu.device.ports import Clock, Timer
from emu.server.net.ib.subnet.nodes import Place, SimNode
from layouts.wire.mads import (
    BASE_VERSION,
    Method,
    MgmtClass,
    NodeType,
    SmpAttr,
    link_notice,
    smp,
)

LINK_STATE_CHANGE: Final = 128
_URGENT: Final = 1
_REPEAT_NS: Final = 1_000_000_000
"""What a subnet timeout of 18 means (IBTA 13.4.9)."""
_MOST_REPEATS: Final = 10


@dataclass(slots=True)
class _Sent:
    tid: int
    repeats: int
    timer: Timer


class Traps:
    """Sends a switch's trap until the manager has got it, or does not seem to exist."""

    def __init__(self, clock: Clock, leave: Callable[[Place, bytes, int, int], None]) -> None:
        """``leave`` has an SMP leave a node: from where, its bytes, destination and source LID."""
        self._clock = clock
        self._leave = leave
        self._sent: dict[int, _Sent] = {}
        """By the node's number."""
        self._tids = count(1)

    def link_changed(self, node: SimNode, port: int) -> None:
        """The link of a port has come or gone; adapters say nothing."""
        if node.tables is None:
            return
        node.tables.info.port_state_change = 1
        self._stop(node)
        self._send(node, next(self._tids), 0)

    def repressed(self, node: SimNode, tid: int) -> None:
        """The manager has got a trap of the node."""
        sent = self._sent.get(node.number)
        if sent is not None and sent.tid == tid:
            self._stop(node)

    def _stop(self, node: SimNode) -> None:
        sent = self._sent.pop(node.number, None)
        if sent is not None:
            sent.timer.cancel()

    def _send(self, node: SimNode, tid: int, repeats: int) -> None:
        self._sent.pop(node.number, None)
        own = node.ports[0].info
        if not (own.lid and own.sm_lid):
            return
        if repeats < _MOST_REPEATS:
            again = partial(self._send, node, tid, repeats + 1)
            self._sent[node.number] = _Sent(tid, repeats, self._clock.call_later(_REPEAT_NS, again))
        notice = link_notice.new(
            is_generic=1, trap_type=_URGENT, producer_type=NodeType.SWITCH,
            trap_num=LINK_STATE_CHANGE, issuer_lid=own.lid, lid=own.lid,
        )  # fmt: skip
        mad = smp.new(
            base_version=BASE_VERSION, mgmt_class=MgmtClass.SUBN_LID_ROUTED,
            class_version=CLASS_VERSION, method=Method.TRAP, attr_id=SmpAttr.NOTICE, tid=tid,
            mkey=own.mkey, data=bytes(notice),
        )  # fmt: skip
        self._leave((node.number, 0), bytes(mad), own.sm_lid, own.lid)
