"""Traps from nodes to the manager (IBTA 13.4.9, 14.2.5.1, 14.3).

Switches report changed link states (trap 128). Functions report changed node descriptions and
capabilities (trap 144). All nodes report errors at their ports (129 to 131) and SMPs with a wrong
M_Key (256). A trap is repeated until the manager represses it, up to ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from emu.device.port.ib.sma import CLASS_VERSION
from emu.device.ports import Clock, Timer
from emu.server.net.ib.subnet.nodes import PortPosition, SimNode
from layouts.wire.mads import (
    BASE_VERSION,
    LocalChange,
    Method,
    MgmtClass,
    NodeType,
    NoticeType,
    SmaTrap,
    SmpAttr,
    bad_mkey_notice,
    link_notice,
    local_change_notice,
    port_notice,
    smp,
)

_REPEAT_NS: Final = 1_000_000_000
"""Interval of repeats for a subnet timeout of 18 (IBTA 13.4.9)."""
_MAX_REPEATS: Final = 10
_RETURN_PATH_BYTES: Final = 30

_Kind = tuple[SmaTrap, int]
"""Trap of a node, and its port or change; 0 for a trap without them."""


@dataclass(frozen=True, slots=True)
class _Event:
    """A report of a node; a later one of the same kind replaces it."""

    node: SimNode
    port: int
    """Port with the manager's LID, by which the trap is sent."""
    kind: _Kind
    data: bytes
    """Bytes of the notice."""


@dataclass(slots=True)
class _Sent:
    event: _Event
    tid: int
    repeats: int
    timer: Timer | None = None


class Traps:
    """Sends nodes' traps until the manager represses them."""

    def __init__(
        self, clock: Clock, leave: Callable[[PortPosition, bytes, int, int], None]
    ) -> None:
        """Store ``leave``, which sends an SMP: port, bytes, destination and source LID."""
        self._clock = clock
        self._leave = leave
        self._sent: dict[int, dict[_Kind, _Sent]] = {}
        """Traps without a TrapRepress, by the node's number."""
        self._tids = count(1)

    def link_changed(self, node: SimNode) -> None:
        """Set a switch's PortStateChange and send trap 128; do nothing for an adapter."""
        if node.tables is None:
            return
        node.tables.info.port_state_change = 1
        lid = node.ports[0].info.lid
        notice = link_notice.new(
            is_generic=1, trap_type=NoticeType.URGENT, producer_type=NodeType.SWITCH,
            trap_num=SmaTrap.LINK_STATE_CHANGE, issuer_lid=lid, lid=lid,
        )  # fmt: skip
        self._report(_Event(node, 0, (SmaTrap.LINK_STATE_CHANGE, 0), bytes(notice)))

    def port_changed(self, node: SimNode, change: LocalChange) -> None:
        """Send trap 144 about an adapter's changed node description or capabilities."""
        info = node.ports[1].info
        notice = local_change_notice.new(
            is_generic=1, trap_type=NoticeType.INFORMATIONAL,
            producer_type=NodeType.CHANNEL_ADAPTER, trap_num=SmaTrap.LOCAL_CHANGE,
            issuer_lid=info.lid, lid=info.lid, cap_mask=info.cap_mask, cap_mask2=info.cap_mask2,
            other_local_changes=change is not LocalChange.CAPABILITIES,
            node_description_change=change is LocalChange.NODE_DESCRIPTION,
        )  # fmt: skip
        self._report(_Event(node, 1, (SmaTrap.LOCAL_CHANGE, change), bytes(notice)))

    def link_failed(self, node: SimNode, port: int, trap: SmaTrap) -> None:
        """Send a trap about too many errors of a port; ``trap`` says of which kind.

        While an earlier one of the kind and port is unrepressed, only its content is replaced.
        """
        lid = node.end(port).info.lid
        notice = port_notice.new(
            is_generic=1, trap_type=NoticeType.URGENT, producer_type=node.line.kind,
            trap_num=trap, issuer_lid=lid, lid=lid, port_num=port,
        )  # fmt: skip
        self._report(_Event(node, self._own(node, port), (trap, port), bytes(notice)), is_calm=True)

    def bad_mkey(self, node: SimNode, entry: int, mad: smp, slid: int) -> None:
        """Send trap 256 about an SMP with a wrong M_Key from LID ``slid`` at a port.

        While the node's earlier one is unrepressed, only its content is replaced.
        """
        lid = node.end(entry).info.lid
        notice = bad_mkey_notice.new(
            is_generic=1, trap_type=NoticeType.SECURITY, producer_type=node.line.kind,
            trap_num=SmaTrap.BAD_MKEY, issuer_lid=lid, lid=slid, method=mad.method,
            attr_id=mad.attr_id, attr_mod=mad.attr_mod, mkey=mad.mkey,
        )  # fmt: skip
        if mad.mgmt_class == MgmtClass.SUBN_DIRECTED_ROUTE:
            notice.assign(
                {
                    "dr_slid": mad.dr_slid, "dr_notice": 1,
                    "dr_path_truncated": mad.hop_cnt > _RETURN_PATH_BYTES,
                    "dr_hop_count": min(mad.hop_cnt, _RETURN_PATH_BYTES),
                    "dr_return_path": mad.return_path[1 : 1 + _RETURN_PATH_BYTES],
                }
            )  # fmt: skip
        kind = SmaTrap.BAD_MKEY, 0
        self._report(_Event(node, self._own(node, entry), kind, bytes(notice)), is_calm=True)

    def repressed(self, node: int, tid: int) -> None:
        """End the trap with this transaction id of the node; ignore an unknown id."""
        waiting = self._sent.get(node, {})
        for kind in [kind for kind, sent in waiting.items() if sent.tid == tid]:
            self._stop(node, kind)

    @staticmethod
    def _own(node: SimNode, port: int) -> int:
        """Return the port whose LID a port uses."""
        return 0 if node.is_switch else port

    def _report(self, event: _Event, *, is_calm: bool = False) -> None:
        """Send an event, in place of an unrepressed one of its kind.

        A calm one only replaces content and transaction id, and keeps timer and repeats. The sender
        of faulty packets thus does not control the number of traps.
        """
        before = self._sent.get(event.node.number, {}).get(event.kind)
        if before is not None and is_calm:
            before.event, before.tid = event, next(self._tids)
            return
        self._stop(event.node.number, event.kind)
        self._send(_Sent(event, next(self._tids), 0))

    def _stop(self, node: int, kind: _Kind) -> None:
        """Forget a trap and cancel its timer; do nothing if there is none."""
        waiting = self._sent.get(node, {})
        sent = waiting.pop(kind, None)
        if sent is not None and sent.timer is not None:
            sent.timer.cancel()
        if not waiting:
            self._sent.pop(node, None)

    def _send(self, sent: _Sent) -> None:
        """Send a trap and schedule its repetition, up to _MAX_REPEATS times.

        A port without a LID or an SM's LID drops the trap.
        """
        event = sent.event
        sent.timer = None
        self._stop(event.node.number, event.kind)
        own = event.node.ports[event.port].info
        if not (own.lid and own.sm_lid):
            return
        if sent.repeats < _MAX_REPEATS:
            sent.repeats += 1
            sent.timer = self._clock.call_later(_REPEAT_NS, partial(self._send, sent))
            self._sent.setdefault(event.node.number, {})[event.kind] = sent
        mad = smp.new(
            base_version=BASE_VERSION, mgmt_class=MgmtClass.SUBN_LID_ROUTED,
            class_version=CLASS_VERSION, method=Method.TRAP, attr_id=SmpAttr.NOTICE, tid=sent.tid,
            data=event.data,
        )  # fmt: skip
        self._leave((event.node.number, event.port), bytes(mad), own.sm_lid, own.lid)
