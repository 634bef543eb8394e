"""Traps by which nodes tell the manager what has changed at them (IBTA 13.4.9, 14.2.5.1, 14.3).

Switches tell of links that have come or gone (trap 128), functions of their node description and
capabilities (trap 144). A trap is repeated until the manager represses it, or does not seem to be
there.
"""

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
    LocalChange,
    Method,
    MgmtClass,
    NodeType,
    NoticeType,
    SmaTrap,
    SmpAttr,
    link_notice,
    local_change_notice,
    smp,
)

_REPEAT_NS: Final = 1_000_000_000
"""What a subnet timeout of 18 means (IBTA 13.4.9)."""
_MOST_REPEATS: Final = 10


@dataclass(frozen=True, slots=True)
class _Event:
    """What a node has to tell; a later one of its kind takes its place."""

    node: SimNode
    port: int
    """Which has the manager's LID, and by which the trap leaves."""
    change: LocalChange | None
    """What has changed at an adapter; None for a switch's link."""
    data: bytes
    """The notice."""


@dataclass(slots=True)
class _Sent:
    tid: int
    timer: Timer


class Traps:
    """Sends nodes' traps until the manager has got them."""

    def __init__(self, clock: Clock, leave: Callable[[Place, bytes, int, int], None]) -> None:
        """``leave`` has an SMP leave a node: from where, its bytes, destination and source LID."""
        self._clock = clock
        self._leave = leave
        self._sent: dict[tuple[int, LocalChange | None], _Sent] = {}
        """By the node's number and what has changed."""
        self._tids = count(1)

    def link_changed(self, node: SimNode) -> None:
        """The link of a port of a node has come or gone; adapters say nothing."""
        if node.tables is None:
            return
        node.tables.info.port_state_change = 1
        lid = node.ports[0].info.lid
        notice = link_notice.new(
            is_generic=1, trap_type=NoticeType.URGENT, producer_type=NodeType.SWITCH,
            trap_num=SmaTrap.LINK_STATE_CHANGE, issuer_lid=lid, lid=lid,
        )  # fmt: skip
        self._tell(_Event(node, 0, None, bytes(notice)))

    def port_changed(self, node: SimNode, change: LocalChange) -> None:
        """An adapter's node description, or its capabilities, are others."""
        info = node.ports[1].info
        notice = local_change_notice.new(
            is_generic=1, trap_type=NoticeType.INFORMATIONAL,
            producer_type=NodeType.CHANNEL_ADAPTER, trap_num=SmaTrap.LOCAL_CHANGE,
            issuer_lid=info.lid, lid=info.lid, cap_mask=info.cap_mask, cap_mask2=info.cap_mask2,
            other_local_changes=change is not LocalChange.CAPABILITIES,
            node_description_change=change is LocalChange.NODE_DESCRIPTION,
        )  # fmt: skip
        self._tell(_Event(node, 1, change, bytes(notice)))

    def repressed(self, node: int, tid: int) -> None:
        """The manager has got a trap of the node with this number."""
        for change in (None, *LocalChange):
            sent = self._sent.get((node, change))
            if sent is not None and sent.tid == tid:
                self._stop((node, change))

    def _tell(self, event: _Event) -> None:
        self._stop((event.node.number, event.change))
        self._send(event, next(self._tids), 0)

    def _stop(self, key: tuple[int, LocalChange | None]) -> None:
        sent = self._sent.pop(key, None)
        if sent is not None:
            sent.timer.cancel()

    def _send(self, event: _Event, tid: int, repeats: int) -> None:
        key = event.node.number, event.change
        self._sent.pop(key, None)
        own = event.node.ports[event.port].info
        if not (own.lid and own.sm_lid):
            return
        if repeats < _MOST_REPEATS:
            again = partial(self._send, event, tid, repeats + 1)
            self._sent[key] = _Sent(tid, self._clock.call_later(_REPEAT_NS, again))
        mad = smp.new(
            base_version=BASE_VERSION, mgmt_class=MgmtClass.SUBN_LID_ROUTED,
            class_version=CLASS_VERSION, method=Method.TRAP, attr_id=SmpAttr.NOTICE, tid=tid,
            mkey=own.mkey, data=event.data,
        )  # fmt: skip
        self._leave((event.node.number, event.port), bytes(mad), own.sm_lid, own.lid)
