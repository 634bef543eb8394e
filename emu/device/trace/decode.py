"""Converts views of declared structures to plain values: non-zero fields by their PRM names.

Work and sizes are bounded for any input of a guest: a long list becomes its length and its first
items, and bytes are cut after ``MAX_BYTES``. Only the first ``MAX_READ`` bytes of a structure, a
list or bytes are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from emu.device.ports import Buffer
from emu.device.trace.event import MAX_ITEMS
from layouts.enums.cqe import CqeChecked, CqeFormat, CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.fields import ArrayView
from layouts.prm import Field, Prm
from layouts.rings import eqe
from layouts.rings.cqe import (
    CQE_BYTES,
    SCATTER_32,
    SCATTER_32_BYTES,
    SCATTER_64,
    cqe64,
    err_cqe,
    sig_err_cqe,
)

MAX_BYTES = 64
MAX_READ = 8192
"""Maximum bytes that are decoded of a command's input or output, and of each list in it."""
_MAX_RAW = 1024
"""Maximum bytes that are shown of an undecodable event: any WQE, or a mailbox and more."""
_FIRST_ITEMS = 4
_SHORTEST_TEXT = 4
_EVENT_DATA_BYTES = 28

_HEADER = frozenset({"opcode", "status", "syndrome"})
"""Fields that the trace line of a command already shows."""

_PAGE_FAULTS = (eqe.eqe_page_fault_wqe, eqe.eqe_page_fault_rdma, eqe.eqe_page_fault_memory)
_EVENT_DATA: Mapping[EventType, type[Prm]] = {
    EventType.COMP: eqe.eqe_comp,
    EventType.CMD: eqe.eqe_cmd,
    EventType.CQ_ERROR: eqe.eqe_cq_err,
    EventType.PORT_CHANGE: eqe.eqe_port_state,
    EventType.PAGE_REQUEST: eqe.eqe_page_req,
    EventType.PORT_MODULE_EVENT: eqe.eqe_port_module,
    EventType.TEMP_WARN_EVENT: eqe.eqe_temp_warning,
    EventType.PPS_EVENT: eqe.eqe_pps,
} | dict.fromkeys(
    (
        EventType.PATH_MIG,
        EventType.COMM_EST,
        EventType.SQ_DRAINED,
        EventType.WQ_CATAS_ERROR,
        EventType.PATH_MIG_FAILED,
        EventType.WQ_INVAL_REQ_ERROR,
        EventType.WQ_ACCESS_ERROR,
        EventType.SRQ_CATAS_ERROR,
        EventType.SRQ_LAST_WQE,
        EventType.SRQ_RQ_LIMIT,
    ),
    eqe.eqe_qp_srq,
)


_COMPLETIONS: Mapping[CqeOpcode, tuple[type[Prm], str]] = {
    CqeOpcode.REQ_ERR: (err_cqe, "s_wqe_opcode_qpn"),
    CqeOpcode.RESP_ERR: (err_cqe, "s_wqe_opcode_qpn"),
    CqeOpcode.SIG_ERR: (sig_err_cqe, "qpn"),
}
"""Layout and the field with the QP's number, for opcodes that differ from ``_COMPLETION``."""
_COMPLETION: tuple[type[Prm], str] = (cqe64, "sop_drop_qpn")
_FORMAT = 0b11
_QPN_MASK = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Inner:
    """The structure inside a field without a fixed layout, such as ``register_data``."""

    field: str
    layout: type[Prm]
    before: bytes | None = None
    """The value that is about to be replaced; only fields that differ from it are shown."""


def structure(layout: type[Prm], data: Buffer, inner: Inner | None = None) -> dict[str, object]:
    """Return the fields of a command's input or output that are not zero, by their PRM names.

    ``opcode``, ``status`` and ``syndrome`` are left out. The field ``inner`` is shown under the
    name of its structure; with ``before``, only the changes. Data too short for the layout is shown
    as bytes (``unknown``).
    """
    if len(data) < layout.named_size(inner.field if inner is not None else ""):
        return unknown(data)
    whole = data if len(data) >= layout.size else bytes(data).ljust(layout.size, b"\0")
    view = layout.view(whole)  # of all bytes; only the shown bytes are copied
    shown: dict[str, object] = {}
    for field in layout.fields:
        if inner is not None and field.name == inner.field:
            fields = _inside(view, field, inner)
            if fields is not None:
                shown[inner.layout.__name__] = fields
                continue
        if field.name not in _HEADER and (value := _shown(view, field)):
            shown[field.name] = value
    return shown


def fields(view: Any) -> dict[str, object]:
    """Return the fields of a view that are not zero."""
    return {field.name: value for field in type(view).fields if (value := _shown(view, field))}


def unknown(data: Buffer) -> dict[str, object]:
    """Return undecodable data: its bytes as the field ``data``."""
    return {"data": found} if (found := octets(data)) else {}


def octets(data: Buffer) -> str:
    """Return bytes as a string: empty when all are zero, text if printable, else hexadecimal.

    Text has at least four characters. More than MAX_BYTES are cut, with the length; more than
    MAX_READ bytes are always hexadecimal.
    """
    if len(data) > MAX_READ:
        return f"0x{bytes(data[:MAX_BYTES]).hex()}... {len(data)} bytes"
    whole = bytes(data)
    used = whole.rstrip(b"\0")
    if len(used) >= _SHORTEST_TEXT and used.isascii():
        text = used.decode("ascii")
        if text.isprintable() and not text.startswith("0x"):
            return text if len(text) <= MAX_BYTES else f"{text[:MAX_BYTES]}..."
    if not used:
        return ""
    if len(whole) <= MAX_BYTES:
        return f"0x{whole.hex()}"
    return f"0x{whole[:MAX_BYTES].hex()}... {len(whole)} bytes"


def raw(data: Buffer) -> str:
    """Return bytes as hexadecimal digits for an undecodable event; more than _MAX_RAW are cut."""
    shown = f"0x{bytes(data[:_MAX_RAW]).hex()}"
    return shown if len(data) <= _MAX_RAW else f"{shown}... {len(data)} bytes"


def event_layout(event: EventType, sub_type: int) -> type[Prm] | None:
    """Return the structure of an event's own data; None if none is declared."""
    if event is EventType.PAGE_FAULT and sub_type < len(_PAGE_FAULTS):
        return _PAGE_FAULTS[sub_type]
    return _EVENT_DATA.get(event)


def event_data(event: EventType, sub_type: int, data: Buffer) -> dict[str, object]:
    """Return the fields of an event's own data that are not zero.

    The data may be shorter than its space in the entry. Data of an unknown structure is shown as
    bytes.
    """
    layout = event_layout(event, sub_type)
    if layout is None:
        return unknown(data)
    return fields(layout.view(bytes(data).ljust(_EVENT_DATA_BYTES, b"\0")))


def completion(entry: Buffer) -> dict[str, object]:
    """Return the keys of a cqe event from ``qpn`` on, for the 64 or 128 bytes of an entry.

    Data that are scattered to the entry, or precede it in 64 bytes, have a key of their own. The
    CQE of a received Ethernet packet, recognised by its checked Ethernet header, has a flow tag
    instead of the queue's number. Error CQEs have a syndrome. Unknown opcodes and syndromes are
    shown as numbers.
    """
    entry, scattered = _without_data(bytes(entry))
    opcode = entry[-1] >> 4
    kind = _member(CqeOpcode, opcode)
    layout, holder = _COMPLETIONS.get(kind, _COMPLETION) if kind is not None else _COMPLETION
    view = layout.view(entry)
    success = view if isinstance(view, cqe64) else None
    is_packet = kind is CqeOpcode.RESP_SEND and success and success.hds_ip_ext & CqeChecked.L2
    number = getattr(view, holder) & _QPN_MASK
    shown: dict[str, object] = {"flow_tag" if is_packet else "qpn": number}
    shown["type"] = opcode if kind is None else kind.name
    if isinstance(view, err_cqe):
        syndrome = _member(CqeSyndrome, view.syndrome)
        shown["syndrome"] = view.syndrome if syndrome is None else syndrome.name
    if success and entry[-1] >> 2 & _FORMAT == CqeFormat.COMPRESSED:
        shown["compressed"] = True
    shown["data"] = fields(view)
    if scattered and success:
        shown["scattered"] = f"0x{scattered[: success.byte_cnt].hex()}"
    return shown


def _without_data(entry: bytes) -> tuple[bytes, bytes]:
    """Return a CQE without the data that are scattered to it, and these data, perhaps empty."""
    form = entry[-1] & (SCATTER_32 | SCATTER_64)
    if form == SCATTER_32:
        return bytes(SCATTER_32_BYTES) + entry[SCATTER_32_BYTES:], entry[:SCATTER_32_BYTES]
    return entry[-CQE_BYTES:], entry[:-CQE_BYTES]


_Named = TypeVar("_Named", bound=IntEnum)


def _member(enum: type[_Named], value: int) -> _Named | None:
    return enum(value) if value in enum._value2member_map_ else None


def _inside(view: Prm, field: Field, inner: Inner) -> dict[str, object] | None:
    """Return the inner structure's fields: with ``before``, only those that differ from it.

    The changed fields have their new values, zero included. Without ``before``, or if it is too
    short, return the fields that are not zero. None when the field has too few bytes.
    """
    content = _raw(view, field)
    if len(content) < inner.layout.size:
        return None
    now = inner.layout.view(content)
    if inner.before is None or len(inner.before) < inner.layout.size:
        return fields(now)
    return _changes(now, inner.layout.view(inner.before))


def _changes(now: Any, before: Any) -> dict[str, object]:
    """Return the fields whose value has changed, with their new values, zero included."""
    shown: dict[str, object] = {}
    for field in type(now).fields:
        value, was = getattr(now, field.name), getattr(before, field.name)
        if isinstance(value, Prm):
            if nested := _changes(value, was):
                shown[field.name] = nested
        elif isinstance(value, ArrayView):
            if _raw(now, field) != _raw(before, field):
                shown[field.name] = _list(value)
        elif value != was:
            shown[field.name] = _plain(value)
    return shown


def _shown(view: Prm, field: Field) -> Any:
    """Return a field's value in its shown form; a false value when all of it is zero.

    A list of more than ``MAX_READ`` bytes is always shown.
    """
    value = getattr(view, field.name)
    if isinstance(value, ArrayView):
        first = _raw(view, field)
        if len(first) < MAX_READ and not first.strip(b"\0"):
            return None
    return _plain(value)


def _plain(value: object) -> Any:
    """Return a value in its shown form: nested fields, a list, bytes as text, or a number."""
    if isinstance(value, Prm):
        return fields(value)
    if isinstance(value, ArrayView):
        return _list(value)
    return octets(value) if isinstance(value, bytes) else value


def listed(count: int, item: Callable[[int], object]) -> Any:
    """Return a list of ``count`` items in its shown form: all items up to MAX_ITEMS.

    A longer list is shown as its length and its first items. ``item`` is called only for the shown
    items.
    """
    if count <= MAX_ITEMS:
        return [item(at) for at in range(count)]
    return {"count": count, "first": [item(at) for at in range(_FIRST_ITEMS)]}


def _list(items: ArrayView[Any]) -> Any:
    return listed(len(items), lambda at: _plain(items[at]))


def _raw(view: Prm, field: Field) -> bytes:
    """Return the first ``MAX_READ`` of a field's bytes; for a tail, of all bytes that follow."""
    start = view.base + field.offset // 8
    size = min(field.width // 8 or MAX_READ, MAX_READ)
    return bytes(view.buf[start : start + size])
