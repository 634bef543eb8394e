"""Traps by which nodes tell the manager what has changed at them (IBTA 13.4.9, 14.2.5.1, 14.3).

Switches tell of links that have come or gone (trap 128), functions of their node description and
capabilities (trap 144), all of errors at their ports (129 to 131) and of SMPs with a wrong M_Key
(256). A trap is repeated until the manager represses it, or does not seem to be there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

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
    bad_mkey_notice,
    link_notice,
    local_change_notice,
    port_notice,
    smp,
)

if TYPE_CHECKING:
    from layouts.wire.mads import Smp

_REPEAT_NS: Final = 1_000_000_000
"""What a subnet timeout of 18 means (IBTA 13.4.9)."""
_MAX_REPEATS: Final = 10
_RETURN_PATH_BYTES: Final = 30

_Kind = tuple[SmaTrap, int]
"""A trap of a node, and which port or change it is about; 0 where there is one alone."""


@dataclass(frozen=True, slots=True)
class _Event:
    """What a node has to tell; a later one of its kind takes its place."""

    node: SimNode
    port: int
    """Which has the manager's LID, and by which the trap leaves."""
    kind: _Kind
    data: bytes
    """The notice."""


@dataclass(slots=True)
class _Sent:
    event: _Event
    tid: int
    repeats: int
    timer: Timer | None = None


class Traps:
    """Sends nodes' traps until the manager has got them."""

    def __init__(self, clock: Clock, leave: Callable[[Place, bytes, int, int], None]) -> None:
        """``leave`` has an SMP leave a node: from where, its bytes, destination and source LID."""
        self._clock = clock
        self._leave = leave
        self._sent: dict[int, dict[_Kind, _Sent]] = {}
        """By the node's number: what awaits its repress."""
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
        self._tell(_Event(node, 0, (SmaTrap.LINK_STATE_CHANGE, 0), bytes(notice)))

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
        self._tell(_Event(node, 1, (SmaTrap.LOCAL_CHANGE, change), bytes(notice)))

    def link_failed(self, node: SimNode, port: int, trap: SmaTrap) -> None:
        """A port has had too many errors; ``trap`` says which."""
        lid = node.end(port).info.lid
        notice = port_notice.new(
            is_generic=1, trap_type=NoticeType.URGENT, producer_type=node.line.kind,
            trap_num=trap, issuer_lid=lid, lid=lid, port_num=port,
        )  # fmt: skip
        self._tell(_Event(node, self._own(node, port), (trap, port), bytes(notice)), is_calm=True)

    def bad_mkey(self, node: SimNode, entry: int, mad: Smp, slid: int) -> None:
        """An SMP with a wrong M_Key has come in by a port, from a LID."""
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
        self._tell(_Event(node, self._own(node, entry), kind, bytes(notice)), is_calm=True)

    def repressed(self, node: int, tid: int) -> None:
        """The manager has got a trap of the node with this number."""
        waiting = self._sent.get(node, {})
        for kind in [kind for kind, sent in waiting.items() if sent.tid == tid]:
            self._stop(node, kind)

    @staticmethod
    def _own(node: SimNode, port: int) -> int:
        """The port whose LIDs are a port's."""
        return 0 if node.is_switch else port

    def _tell(self, event: _Event, *, is_calm: bool = False) -> None:
        """Send what has happened. ``is_calm``: while another one of its kind awaits its repress, it
        takes that one's place and time, so that who causes it does not decide how many are sent.
        """
        before = self._sent.get(event.node.number, {}).get(event.kind)
        if before is not None and is_calm:
            before.event, before.tid = event, next(self._tids)
            return
        self._stop(event.node.number, event.kind)
        self._send(_Sent(event, next(self._tids), 0))

    def _stop(self, node: int, kind: _Kind) -> None:
        waiting = self._sent.get(node, {})
        sent = waiting.pop(kind, None)
        if sent is not None and sent.timer is not None:
            sent.timer.cancel()
        if not waiting:
            self._sent.pop(node, None)

    def _send(self, sent: _Sent) -> None:
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
